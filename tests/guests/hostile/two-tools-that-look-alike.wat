;; Offers two tools whose names differ to a machine alone.
;;
;; descriptor: {"tools": [{"id": "one", "name": "list_items"}, {"id": "two", "name": "Iist-1tems"}]}
;; limit: names
;; expects: refused "looks like"
