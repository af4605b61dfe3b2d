;; Returns 10,000 nested lists.
;;
;; returns: {"ok": {"result": {"data": {"$join": [
;;   {"$repeat": ["[", 10000]}, {"$repeat": ["]", 10000]}]}}}}
;; limit: JSON depth
;; expects: malformed_output
