;; Asks a person to approve, with a schema for the answer.
;;
;; returns: {"ok": {"result": {"data": "null", "message": "Waiting for approval", "status": {"pending": {
;;   "action": "approve", "message": "Shall I?", "parameters": {"what": "this"},
;;   "response-schema": {"type": "object", "required": ["approved"],
;;   "properties": {"approved": {"type": "boolean"}}},
;;   "resume-mode": "use-decision-as-tool-result"}}}}}
;; expects: succeeds
