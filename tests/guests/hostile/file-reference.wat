;; Has a schema that refers to a file of the host.
;;
;; descriptor: {"tools": [{"parameters":
;;   {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}}]}
;; limit: schemas
;; expects: refused "within the document"
