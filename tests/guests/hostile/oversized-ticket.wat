;; Suspends with a ticket that carries 100,000 bytes in addition to the question.
;;
;; returns: {"ok": {"result": {"data": "null", "status": {"pending": {"action": "approve",
;;   "message": "?", "parameters": {"$join": ["\"", {"$repeat": ["a", 100000]}, "\""]}}}}}}
;; limit: JSON nodes
;; expects: malformed_output
