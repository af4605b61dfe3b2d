;; Returns the maximum number of nested lists, so that code which wraps them once more
;; fails.
;;
;; returns: {"ok": {"result": {"data": {"$join": [
;;   {"$repeat": ["[", 128]}, {"$repeat": ["]", 128]}]}}}}
;; limit: JSON depth
;; expects: succeeds
