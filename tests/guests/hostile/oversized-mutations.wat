;; Returns five mutations that are each within their limit and together above the
;; total.
;;
;; descriptor: {"state": [{"key": "oversized-mutations.a", "write": true,
;;   "defines": {"initial": "0", "reducer": "replace"}}]}
;; returns: {"ok": {"result": {"data": "null"}, "mutations": {"$repeat": [{"key": "oversized-mutations.a",
;;   "update": {"$join": ["\"", {"$repeat": ["a", 250000]}, "\""]}}, 5]}}}
;; limit: mutations
;; expects: bad_mutation
