;; Ends with an internal error whose message for the operator is 1 MiB of terminal
;; escapes.
;;
;; returns: {"err": {"internal": {"$repeat": ["\u001b[2Jsecret", 80000]}}}
;; limit: what the model reads
;; expects: tool_internal
