;; Has a pattern that repeats a character class a million times.
;;
;; descriptor: {"tools": [{"parameters":
;;   {"type": "object", "properties": {"a": {"type": "string", "pattern": "(\\w{1000}){1000}"}}}}]}
;; limit: schemas
;; expects: refused "262144 bytes"
