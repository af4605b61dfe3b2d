;; Has a description of 200,000 characters.
;;
;; descriptor: {"tools": [{"description": {"$repeat": ["a", 200000]}}]}
;; limit: description
;; expects: succeeds
