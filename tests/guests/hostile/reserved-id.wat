;; Uses the host's name as its component id.
;;
;; descriptor: {"id": "host"}
;; limit: names
;; expects: refused "reserved"
