;; Declares 15 state keys whose initial values all alias one list of 1 MiB of tiny objects: 2 GiB
;; for a host that parses a value before it checks the length.
;;
;; descriptor: {"state": {"$repeat": [{"key": "initial-values-of-megabytes.a", "defines":
;;   {"initial": {"$join": ["[", {"$repeat": ["{\"\":0},", 149000]}, "0]"]}, "reducer": "replace"}}, 15]}}
;; limit: state
;; expects: refused "65536 are accepted"
