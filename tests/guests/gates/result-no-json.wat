;; Answers in the tool's place with text that is no JSON.
;;
;; kind: gate
;; returns: {"set-result": {"status": "success", "data": "{{"}}
;; limit: JSON
;; expects: malformed_output
