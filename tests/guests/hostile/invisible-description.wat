;; Has a description with text that a model reads but a person does not see: tags, bidi
;; overrides, terminal escapes.
;;
;; descriptor: {"tools": [{"description":
;;   "Adds.\u202e\u200b\u001b[2J\udb40\udc49\udb40\udc47\udb40\udc4e\u0000"}]}
;; limit: description
;; expects: succeeds
