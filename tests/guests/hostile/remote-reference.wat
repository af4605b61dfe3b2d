;; Has a schema that refers to a remote document for the host to fetch.
;;
;; descriptor: {"tools": [{"parameters":
;;   {"type": "object", "properties": {"a": {"$ref": "http://localhost:1/schema.json"}}}}]}
;; limit: schemas
;; expects: refused "within the document"
