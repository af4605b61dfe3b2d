;; Answers in the tool's place with text that is not JSON.
;;
;; kind: gate
;; returns: {"set-result": {"status": "success", "data": "{{"}}
;; limit: JSON
;; expects: malformed_output
