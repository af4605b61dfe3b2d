;; Has a schema that is not JSON.
;;
;; descriptor: {"tools": [{"parameters": "{\"type\": object}"}]}
;; limit: schemas
;; expects: refused "JSON"
