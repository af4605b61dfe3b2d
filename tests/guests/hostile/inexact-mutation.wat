;; Writes a number to the state that would change when stored.
;;
;; descriptor: {"state": [{"key": "inexact-mutation.a", "write": true,
;;   "defines": {"initial": "0", "reducer": "replace"}}]}
;; returns: {"ok": {"result": {"data": "null"}, "mutations": [{"key": "inexact-mutation.a",
;;   "update": "9007199254740993.0"}]}}
;; limit: mutations
;; expects: bad_mutation
