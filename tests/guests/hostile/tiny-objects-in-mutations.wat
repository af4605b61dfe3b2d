;; Returns 980,000 bytes of objects of one member in four mutations: 140,000 objects, which
;; take 80 MB once they are read, and as much again in the state.
;;
;; descriptor: {"state": [{"key": "tiny-objects-in-mutations.a", "write": true,
;;   "defines": {"initial": "[]", "reducer": "replace"}}]}
;; returns: {"ok": {"result": {"data": "null"}, "mutations": {"$repeat": [{"key": "tiny-objects-in-mutations.a",
;;   "update": {"$join": ["[", {"$repeat": ["{\"\":0},", 34999]}, "0]"]}}, 4]}}}
;; limit: host memory
;; expects: out_of_memory
