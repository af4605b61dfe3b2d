;; Has a schema whose arguments are no object.
;;
;; descriptor: {"tools": [{"parameters": {"type": "string"}}]}
;; limit: schemas
;; expects: refused "object"
