;; Describes 64 tools and 64 state keys whose schemas of 64 KiB consist of tiny objects: a gigabyte
;; once they are parsed.
;;
;; descriptor: {"tools": {"$repeat": [{"id": "a", "name": "a", "parameters":
;;   {"$join": ["{\"enum\":[", {"$repeat": ["{\"\":0},", 9300]}, "0]}"]}}, 64]},
;;   "state": {"$repeat": [{"key": "schemas-of-tiny-objects.a", "defines": {"initial": "0", "reducer": "replace",
;;   "schema": {"$join": ["{\"enum\":[", {"$repeat": ["{\"\":0},", 9300]}, "0]}"]}}}, 64]}}
;; limit: descriptor
;; expects: refused "once parsed"
