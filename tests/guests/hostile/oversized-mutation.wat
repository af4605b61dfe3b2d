;; Returns a mutation of 300,000 bytes.
;;
;; descriptor: {"state": [{"key": "oversized-mutation.a", "write": true,
;;   "defines": {"initial": "0", "reducer": "replace"}}]}
;; returns: {"ok": {"result": {"data": "null"}, "mutations": [{"key": "oversized-mutation.a",
;;   "update": {"$join": ["\"", {"$repeat": ["a", 300000]}, "\""]}}]}}
;; limit: mutations
;; expects: bad_mutation
