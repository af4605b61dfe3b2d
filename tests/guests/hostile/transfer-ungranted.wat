;; Transfers the conversation to another agent without the grant.
;;
;; returns: {"ok": {"result": {"data": "null"}, "actions": [{"transfer-to-agent": "admin"}]}}
;; limit: actions
;; expects: bad_action
