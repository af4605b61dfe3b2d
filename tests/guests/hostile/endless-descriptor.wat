;; Describes 200,000 tools that all alias one.
;;
;; descriptor: {"tools": {"$repeat": [
;;   {"id": "a", "name": "a", "description": "A.", "parameters": "{}"}, 200000]}}
;; limit: describe
;; expects: refused "crossing_bytes"
