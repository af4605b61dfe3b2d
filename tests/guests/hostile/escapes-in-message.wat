;; Returns terminal escapes and invisible text to a person and a model.
;;
;; returns: {"ok": {"result": {"data": "null", "message":
;;   "Done.\u001b[2J\u001b]0;owned\u0007\u202e\u200b\udb40\udc49"}}}
;; limit: what the model reads
;; expects: succeeds
