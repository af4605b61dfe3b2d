;; Has a schema with 65 different patterns.
;;
;; descriptor: {"tools": [{"parameters": {"$join": ["{\"type\": \"object\", \"properties\": {",
;;   {"$count": ["\"a@\": {\"pattern\": \"^[a-z]{1,100}@$\"}", 65]}, "}}"]}}]}
;; limit: schemas
;; expects: refused "too many patterns"
