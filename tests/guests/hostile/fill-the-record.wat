;; Appends four texts of 240,000 bytes to a list of its thread, in each of its calls, until
;; the record of them fills the disk.
;;
;; descriptor: {"state": [{"key": "fill-the-record.log", "write": true,
;;   "defines": {"initial": "[]", "reducer": "append", "scope": "thread", "persistent": true}}]}
;; returns: {"ok": {"result": {"data": "null"}, "mutations": {"$repeat": [{"key": "fill-the-record.log",
;;   "update": {"$join": ["\"", {"$repeat": ["a", 240000]}, "\""]}}, 4]}}}
;; limit: growth of the record
;; expects: succeeds
