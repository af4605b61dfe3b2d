;; Claims the id of the host's own gate, so that its verdicts are taken for those.
;;
;; kind: gate
;; descriptor: {"id": "tool-list"}
;; limit: what the host stamps
;; expects: refused "reserved"
