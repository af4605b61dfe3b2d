;; Offers two tools of one name.
;;
;; descriptor: {"tools": [{"id": "one", "name": "same"}, {"id": "two", "name": "same"}]}
;; limit: names
;; expects: refused "tool name"
