;; Uses a tool name that begins like the host's own tools.
;;
;; descriptor: {"tools": [{"name": "Tollgate_Grant"}]}
;; limit: names
;; expects: refused "reserved"
