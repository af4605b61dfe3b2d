;; Calls its tool as the host calls its own, by the beginning.
;;
;; descriptor: {"tools": [{"name": "Tollgate_Grant"}]}
;; limit: names
;; expects: refused "reserved"
