;; Has a pattern that takes exponential time in a backtracking engine.
;;
;; descriptor: {"tools": [{"parameters":
;;   {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}}]}
;; limit: schemas
;; expects: succeeds
