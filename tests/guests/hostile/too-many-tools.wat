;; Offers 65 tools.
;;
;; descriptor: {"tools": {"$repeat": [
;;   {"id": "a", "name": "a", "description": "A.", "parameters": "{}"}, 65]}}
;; limit: descriptor
;; expects: refused "tools"
