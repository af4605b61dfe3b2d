;; Has a pattern that takes exponential time where patterns backtrack.
;;
;; descriptor: {"tools": [{"parameters":
;;   {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}}]}
;; limit: schemas
;; expects: succeeds
