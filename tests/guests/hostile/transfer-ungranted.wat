;; Hands the conversation to another agent, which it was not granted.
;;
;; returns: {"ok": {"result": {"data": "null"}, "actions": [{"transfer-to-agent": "admin"}]}}
;; limit: actions
;; expects: bad_action
