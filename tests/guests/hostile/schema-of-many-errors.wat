;; Sets state to a list of 100,000 numbers where strings are required, which causes as
;; many errors for a host to collect.
;;
;; descriptor: {"state": [{"key": "schema-of-many-errors.a", "write": true, "defines": {"initial": "[]",
;;   "reducer": "replace", "schema": {"items": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}}]}
;; returns: {"ok": {"result": {"data": "null"}, "mutations": [{"key": "schema-of-many-errors.a", "update":
;;   {"$join": ["[", {"$repeat": ["1,", 100000]}, "1]"]}}]}}
;; limit: schemas
;; expects: bad_mutation
