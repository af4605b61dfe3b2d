;; Offers two tools with the same id.
;;
;; descriptor: {"tools": [{"id": "same", "name": "one"}, {"id": "same", "name": "two"}]}
;; limit: names
;; expects: refused "tool id"
