;; Uses the name of one of the host's own tools.
;;
;; descriptor: {"tools": [{"name": "transfer_to_agent"}]}
;; limit: names
;; expects: refused "reserved"
