;; Returns an object with a duplicate key, which two parsers would read differently.
;;
;; returns: {"ok": {"result": {"data": "{\"allowed\":false,\"allowed\":true}"}}}
;; limit: JSON
;; expects: malformed_output
