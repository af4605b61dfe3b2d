;; Returns a whole number that the host would hand on as another.
;;
;; returns: {"ok": {"result": {"data": "{\"account\": 12345678901234567890123}"}}}
;; limit: JSON
;; expects: malformed_output
