;; Returns an object that has one key twice, for two readers to read differently.
;;
;; returns: {"ok": {"result": {"data": "{\"allowed\":false,\"allowed\":true}"}}}
;; limit: JSON
;; expects: malformed_output
