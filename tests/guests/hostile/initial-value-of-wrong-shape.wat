;; Declares a sum with a list as its initial value.
;;
;; descriptor: {"state": [{"key": "initial-value-of-wrong-shape.a",
;;   "defines": {"initial": "[]", "reducer": "add"}}]}
;; limit: state
;; expects: refused "reducer"
