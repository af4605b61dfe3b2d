;; Asks to be shown what the host keeps for itself.
;;
;; kind: gate
;; descriptor: {"reads": ["host.permissions"]}
;; limit: state shown to gates
;; expects: refused "belongs to the host"
