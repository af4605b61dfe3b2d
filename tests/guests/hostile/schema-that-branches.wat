;; Sets state to a value that its schema checks 2^100 times, level by level.
;;
;; descriptor: {"state": [{"key": "schema-that-branches.a", "write": true, "defines": {"initial": "{}",
;;   "schema": {"allOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]}}}]}
;; returns: {"ok": {"result": {"data": "null"}, "mutations": [{"key": "schema-that-branches.a", "update":
;;   {"$join": [{"$repeat": ["{\"a\":", 100]}, "1", {"$repeat": ["}", 100]}]}}]}}
;; limit: schemas
;; expects: bad_mutation
