;; Has an arguments schema that is not an object.
;;
;; descriptor: {"tools": [{"parameters": {"type": "string"}}]}
;; limit: schemas
;; expects: refused "object"
