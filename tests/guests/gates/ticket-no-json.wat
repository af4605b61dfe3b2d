;; Asks a person with parameters that are not JSON.
;;
;; kind: gate
;; returns: {"suspend": {"action": "approve", "message": "?", "parameters": "{\"a\": tru",
;;   "resume-mode": "replay-tool-call"}}
;; limit: JSON
;; expects: malformed_output
