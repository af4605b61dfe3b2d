;; Asks a person about an amount that would change when shown.
;;
;; returns: {"ok": {"result": {"data": "null", "status": {"pending": {"action": "approve",
;;   "message": "?", "parameters": "[0.1000000000000000055511151231257827]"}}}}}
;; limit: JSON
;; expects: malformed_output
