;; Has a short pattern that is huge when compiled.
;;
;; descriptor: {"tools": [{"parameters":
;;   {"type": "object", "properties": {"a": {"type": "string", "pattern": "((a{1000}){1000}){1000}"}}}}]}
;; limit: schemas
;; expects: refused "schema"
