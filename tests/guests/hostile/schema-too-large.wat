;; Has a schema of 70,000 bytes.
;;
;; descriptor: {"tools": [{"parameters":
;;   {"$join": ["{\"type\": \"object\", \"description\": \"", {"$repeat": ["a", 70000]}, "\"}"]}}]}
;; limit: schemas
;; expects: refused "65536"
