;; Returns 980,000 bytes of one-member objects in four mutations: 140,000 objects,
;; which take 80 MB once parsed, and the same again in the state.
;;
;; descriptor: {"state": [{"key": "tiny-objects-in-mutations.a", "write": true,
;;   "defines": {"initial": "[]", "reducer": "replace"}}]}
;; returns: {"ok": {"result": {"data": "null"}, "mutations": {"$repeat": [{"key": "tiny-objects-in-mutations.a",
;;   "update": {"$join": ["[", {"$repeat": ["{\"\":0},", 34999]}, "0]"]}}, 4]}}}
;; limit: host memory
;; expects: out_of_memory
