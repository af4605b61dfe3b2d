;; Claims the id under which a person's approvals are remembered.
;;
;; kind: gate
;; descriptor: {"id": "permissions"}
;; limit: what the host stamps
;; expects: refused "reserved"
