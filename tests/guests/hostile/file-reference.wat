;; Has a schema that is in a file of the host.
;;
;; descriptor: {"tools": [{"parameters":
;;   {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}}]}
;; limit: schemas
;; expects: refused "within the document"
