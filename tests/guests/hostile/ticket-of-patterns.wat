;; Suspends with a ticket whose schema of 9 KiB has patterns that compile to a GiB.
;;
;; returns: {"ok": {"result": {"data": "null", "status": {"pending": {"action": "approve",
;;   "message": "?", "parameters": "{}", "response-schema": {"$join": ["{\"anyOf\": [",
;;   {"$count": ["{\"pattern\": \"((\\\\p{L}|\\\\p{N}){100}@){1000}\"}", 200]}, "]}"]}}}}}}
;; limit: schemas
;; expects: malformed_output
