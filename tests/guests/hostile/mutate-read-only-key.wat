;; Changes a key that it declared as read-only.
;;
;; descriptor: {"state": [{"key": "mutate-read-only-key.a", "read": true, "defines": {"initial": "0"}}]}
;; returns: {"ok": {"result": {"data": "null"}, "mutations": [
;;   {"key": "mutate-read-only-key.a", "update": "1"}]}}
;; limit: mutations
;; expects: bad_mutation
