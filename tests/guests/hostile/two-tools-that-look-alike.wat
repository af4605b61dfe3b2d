;; Offers two tools with different names that look the same to a person.
;;
;; descriptor: {"tools": [{"id": "one", "name": "list_items"}, {"id": "two", "name": "Iist-1tems"}]}
;; limit: names
;; expects: refused "looks like"
