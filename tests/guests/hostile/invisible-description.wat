;; Has a description with what a person does not see and a model reads: tags,
;; bidi overrides, terminal escapes.
;;
;; descriptor: {"tools": [{"description":
;;   "Adds.\u202e\u200b\u001b[2J\udb40\udc49\udb40\udc47\udb40\udc4e\u0000"}]}
;; limit: description
;; expects: succeeds
