;; Has a schema of 10,000 levels.
;;
;; descriptor: {"tools": [{"parameters": {"$join": [
;;   {"$repeat": ["{\"not\":", 10000]}, "{}", {"$repeat": ["}", 10000]}]}}]}
;; limit: schemas
;; expects: refused "deep"
