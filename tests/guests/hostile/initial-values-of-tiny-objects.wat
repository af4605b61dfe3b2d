;; Declares 64 state keys whose initial values of 64 KiB consist of tiny objects: 1.6 GiB once they
;; are parsed, for as long as the component is served.
;;
;; descriptor: {"state": {"$repeat": [{"key": "initial-values-of-tiny-objects.a", "defines":
;;   {"initial": {"$join": ["[", {"$repeat": ["{\"\":0},", 9300]}, "0]"]}, "reducer": "replace"}}, 64]}}
;; limit: descriptor
;; expects: refused "once parsed"
