;; Returns as many lists within one another as are allowed, for those who wrap
;; them once more to fail on.
;;
;; returns: {"ok": {"result": {"data": {"$join": [
;;   {"$repeat": ["[", 128]}, {"$repeat": ["]", 128]}]}}}}
;; limit: JSON depth
;; expects: succeeds
