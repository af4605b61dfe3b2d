;; Returns 500,520 values, 8,342 in each of 60 mutations, each within its own limits.
;;
;; descriptor: {"state": [{"key": "nodes-over-mutations.a", "write": true,
;;   "defines": {"initial": "[]", "reducer": "replace"}}]}
;; returns: {"ok": {"result": {"data": "null"}, "mutations": {"$repeat": [{"key": "nodes-over-mutations.a",
;;   "update": {"$join": ["[", {"$repeat": ["0,", 8340]}, "0]"]}}, 60]}}}
;; limit: JSON nodes
;; expects: malformed_output
