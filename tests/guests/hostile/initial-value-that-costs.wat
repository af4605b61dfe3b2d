;; Declares state whose initial value of 60 KB takes 27 million steps to check, which
;; would block the tools directory.
;;
;; descriptor: {"state": [{"key": "initial-value-that-costs.a", "write": true, "defines": {
;;   "initial": {"$join": ["[", {"$repeat": ["1,", 30000]}, "9]"]}, "reducer": "replace",
;;   "schema": {"$join": ["{\"anyOf\": [", {"$repeat": ["{\"items\": {\"maximum\": 5}},", 899]},
;;   "{}]}"]}}}]}
;; limit: schemas
;; expects: refused "too much work"
