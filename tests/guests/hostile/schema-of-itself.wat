;; Has a schema that refers to itself without end.
;;
;; descriptor: {"tools": [{"parameters": {"type": "object", "$ref": "#"}}]}
;; limit: schemas
;; expects: invalid_arguments
