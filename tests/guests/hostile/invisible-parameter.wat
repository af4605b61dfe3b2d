;; Has a parameter whose name holds what a person does not see and a model reads, so
;; that what is shown is not what is asked for.
;;
;; descriptor: {"tools": [{"parameters":
;;   {"type": "object", "properties": {"path\udb40\udc49\udb40\udc47": {"type": "string"}}}}]}
;; limit: description
;; expects: refused "does not see"
