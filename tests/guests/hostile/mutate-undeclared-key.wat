;; Changes a key that it did not declare.
;;
;; returns: {"ok": {"result": {"data": "null"}, "mutations": [
;;   {"key": "mutate-undeclared-key.a", "update": "1"}]}}
;; limit: mutations
;; expects: bad_mutation
