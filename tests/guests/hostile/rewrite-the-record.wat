;; Replaces one value of 240,000 bytes four times in each of its calls: its state never
;; grows, and the record of its changes does.
;;
;; descriptor: {"state": [{"key": "rewrite-the-record.page", "write": true,
;;   "defines": {"initial": "\"\"", "reducer": "replace", "scope": "thread", "persistent": true}}]}
;; returns: {"ok": {"result": {"data": "null"}, "mutations": {"$repeat": [{"key": "rewrite-the-record.page",
;;   "update": {"$join": ["\"", {"$repeat": ["a", 240000]}, "\""]}}, 4]}}}
;; limit: growth of the record
;; expects: succeeds
