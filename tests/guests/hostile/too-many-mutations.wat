;; Returns 65 mutations.
;;
;; descriptor: {"state": [{"key": "too-many-mutations.a", "write": true,
;;   "defines": {"initial": "0", "reducer": "replace"}}]}
;; returns: {"ok": {"result": {"data": "null"}, "mutations": {"$repeat": [
;;   {"key": "too-many-mutations.a", "update": "1"}, 65]}}}
;; limit: mutations
;; expects: bad_mutation
