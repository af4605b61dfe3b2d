;; Returns an integer that would change when the host passes it on.
;;
;; returns: {"ok": {"result": {"data": "{\"account\": 12345678901234567890123}"}}}
;; limit: JSON
;; expects: malformed_output
