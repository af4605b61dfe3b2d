;; Appends many tiny objects to its state, which take far more memory than text, and eight numbers
;; after them in the same call.
;;
;; limit: host memory
;; expects: succeeds
;; descriptor: {"state": [{"key": "append-fat-elements.list", "read": false, "write": true, "defines": {"initial": "[]", "schema": "{\"type\": \"array\", \"maxItems\": 100000}", "reducer": "append", "scope": "thread", "persistent": true}}]}
;; returns: {"ok": {"result": {"data": "null"}, "mutations": [{"key": "append-fat-elements.list", "update": {"$join": ["[", {"$repeat": ["{\"\":0},", 30000]}, "0]"]}}, {"key": "append-fat-elements.list", "update": "0"}, {"key": "append-fat-elements.list", "update": "0"}, {"key": "append-fat-elements.list", "update": "0"}, {"key": "append-fat-elements.list", "update": "0"}, {"key": "append-fat-elements.list", "update": "0"}, {"key": "append-fat-elements.list", "update": "0"}, {"key": "append-fat-elements.list", "update": "0"}, {"key": "append-fat-elements.list", "update": "0"}]}}
