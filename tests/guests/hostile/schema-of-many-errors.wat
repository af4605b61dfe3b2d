;; Gives state a list of 100,000 numbers where texts are allowed: as many errors, none of which may be kept.
;;
;; descriptor: {"state": [{"key": "schema-of-many-errors.a", "write": true, "defines": {"initial": "[]",
;;   "reducer": "replace", "schema": {"items": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}}]}
;; returns: {"ok": {"result": {"data": "null"}, "mutations": [{"key": "schema-of-many-errors.a", "update":
;;   {"$join": ["[", {"$repeat": ["1,", 100000]}, "1]"]}}]}}
;; limit: schemas
;; expects: bad_mutation
