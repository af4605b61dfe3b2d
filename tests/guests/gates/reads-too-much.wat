;; Asks for more keys than a gate is shown.
;;
;; kind: gate
;; descriptor: {"reads": {"$repeat": ["a.b", 65]}}
;; limit: state shown to gates
;; expects: refused "65 state keys"
