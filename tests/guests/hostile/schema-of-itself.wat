;; Has a schema that is itself, without end.
;;
;; descriptor: {"tools": [{"parameters": {"type": "object", "$ref": "#"}}]}
;; limit: schemas
;; expects: invalid_arguments
