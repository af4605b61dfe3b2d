;; Sets a key to a value that its schema does not allow.
;;
;; descriptor: {"state": [{"key": "mutate-against-schema.a", "write": true,
;;   "defines": {"initial": "0", "reducer": "replace", "schema": {"type": "integer", "maximum": 10}}}]}
;; returns: {"ok": {"result": {"data": "null"}, "mutations": [
;;   {"key": "mutate-against-schema.a", "update": "11"}]}}
;; limit: mutations
;; expects: bad_mutation
