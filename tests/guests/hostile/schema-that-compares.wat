;; Sets state to 250 lists, each to be compared with 90 lists of the same length that
;; differ at the end.
;;
;; descriptor: {"state": [{"key": "schema-that-compares.a", "write": true, "defines": {"initial": "[]",
;;   "reducer": "replace", "schema": {"$join": ["{\"items\": {\"enum\": [",
;;   {"$repeat": [{"$join": ["[", {"$repeat": ["1,", 300]}, "2],"]}, 89]}, "[3]]}}"]}}}]}
;; returns: {"ok": {"result": {"data": "null"}, "mutations": [{"key": "schema-that-compares.a", "update":
;;   {"$join": ["[", {"$repeat": [{"$join": ["[", {"$repeat": ["1,", 300]}, "4],"]}, 250]}, "[3]]"]}}]}}
;; limit: schemas
;; expects: bad_mutation
