;; Adds a list to a number.
;;
;; descriptor: {"state": [{"key": "mutate-wrong-shape.a", "write": true,
;;   "defines": {"initial": "0", "reducer": "add"}}]}
;; returns: {"ok": {"result": {"data": "null"}, "mutations": [
;;   {"key": "mutate-wrong-shape.a", "update": "[1]"}]}}
;; limit: mutations
;; expects: bad_mutation
