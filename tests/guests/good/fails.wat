;; Says that it was tried and did not work.
;;
;; returns: {"err": {"execution-failed": "The printer is on fire"}}
;; expects: tool_failed
