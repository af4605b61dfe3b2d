;; Declares a sum whose initial value is a list.
;;
;; descriptor: {"state": [{"key": "initial-value-of-wrong-shape.a",
;;   "defines": {"initial": "[]", "reducer": "add"}}]}
;; limit: state
;; expects: refused "reducer"
