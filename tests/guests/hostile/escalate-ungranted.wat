;; Ends the enclosing agent without the grant.
;;
;; returns: {"ok": {"result": {"data": "null"}, "actions": ["escalate"]}}
;; limit: actions
;; expects: bad_action
