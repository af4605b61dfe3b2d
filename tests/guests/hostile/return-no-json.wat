;; Returns text that is not JSON.
;;
;; returns: {"ok": {"result": {"data": "{\"a\": tru"}}}
;; limit: JSON
;; expects: malformed_output
