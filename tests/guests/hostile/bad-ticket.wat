;; Suspends with a ticket whose schema is not JSON.
;;
;; returns: {"ok": {"result": {"data": "null", "status": {"pending": {"action": "approve",
;;   "message": "?", "parameters": "{}", "response-schema": "{oops"}}}}}
;; limit: JSON
;; expects: malformed_output
