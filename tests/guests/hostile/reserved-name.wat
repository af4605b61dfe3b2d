;; Calls its tool as the host calls its own.
;;
;; descriptor: {"tools": [{"name": "transfer_to_agent"}]}
;; limit: names
;; expects: refused "reserved"
