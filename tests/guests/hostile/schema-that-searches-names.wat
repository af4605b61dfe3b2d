;; Sets state to an object with 15,000 names, each to be searched with 60 patterns that
;; nearly match.
;;
;; descriptor: {"state": [{"key": "schema-that-searches-names.a", "write": true, "defines": {"initial": "{}",
;;   "reducer": "replace", "schema": {"$join": ["{\"patternProperties\": {",
;;   {"$count": ["\"(n?){50}[0-9]{1,20}x@$\": {}", 60]}, "}, \"maxProperties\": 10}"]}}}]}
;; returns: {"ok": {"result": {"data": "null"}, "mutations": [{"key": "schema-that-searches-names.a", "update":
;;   {"$join": ["{", {"$count": ["\"nnnn@\":0", 15000]}, "}"]}}]}}
;; limit: schemas
;; expects: bad_mutation
