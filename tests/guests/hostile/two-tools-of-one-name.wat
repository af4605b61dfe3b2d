;; Offers two tools with the same name.
;;
;; descriptor: {"tools": [{"id": "one", "name": "same"}, {"id": "two", "name": "same"}]}
;; limit: names
;; expects: refused "tool name"
