;; Sets state to a list that is checked against 900 branches, each of which fails at
;; the last element.
;;
;; descriptor: {"state": [{"key": "schema-that-fails-late.a", "write": true, "defines": {"initial": "[]",
;;   "reducer": "replace", "schema": {"$join": ["{\"anyOf\": [",
;;   {"$repeat": ["{\"items\": {\"maximum\": 5}},", 899]}, "{\"items\": {\"maximum\": 5}}]}"]}}}]}
;; returns: {"ok": {"result": {"data": "null"}, "mutations": [{"key": "schema-that-fails-late.a", "update":
;;   {"$join": ["[", {"$repeat": ["1,", 100000]}, "9]"]}}]}}
;; limit: schemas
;; expects: bad_mutation
