;; Ends the enclosing agent, which it was not granted.
;;
;; returns: {"ok": {"result": {"data": "null"}, "actions": ["escalate"]}}
;; limit: actions
;; expects: bad_action
