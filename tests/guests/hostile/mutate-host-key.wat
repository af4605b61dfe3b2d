;; Changes a key of the host.
;;
;; returns: {"ok": {"result": {"data": "null"}, "mutations": [
;;   {"key": "host.grants", "update": "[\"everything\"]"}]}}
;; limit: mutations
;; expects: bad_mutation
