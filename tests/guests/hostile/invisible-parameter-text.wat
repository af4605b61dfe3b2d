;; Hides text for a model in the descriptions, titles, defaults and examples of
;; its parameters: tags, bidi overrides, terminal escapes.
;;
;; descriptor: {"tools": [{"parameters": {"type": "object", "properties": {"path":
;;   {"type": "string", "description": "A path.\u202e\u200b\u001b[2J\udb40\udc49\udb40\udc47",
;;   "title": "Path\udb40\udc4e", "default": "a\u200b", "examples": ["b\u202e"]}}}}]}
;; limit: description
;; expects: succeeds
