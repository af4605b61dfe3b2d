;; Returns a mutation of 10,000 nested lists.
;;
;; descriptor: {"state": [{"key": "deep-mutation.a", "write": true, "defines": {"initial": "[]"}}]}
;; returns: {"ok": {"result": {"data": "null"}, "mutations": [{"key": "deep-mutation.a", "update":
;;   {"$join": [{"$repeat": ["[", 10000]}, {"$repeat": ["]", 10000]}]}}]}}
;; limit: JSON depth
;; expects: malformed_output
