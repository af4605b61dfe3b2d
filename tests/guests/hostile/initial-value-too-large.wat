;; Declares state with an initial value of 100 KB.
;;
;; descriptor: {"state": [{"key": "initial-value-too-large.a", "defines":
;;   {"initial": {"$join": ["\"", {"$repeat": ["a", 100000]}, "\""]}, "reducer": "replace"}}]}
;; limit: state
;; expects: refused "65536 are accepted"
