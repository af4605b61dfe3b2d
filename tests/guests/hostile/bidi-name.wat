;; Has a name that a terminal displays backwards.
;;
;; descriptor: {"tools": [{"name": "file\u202edelete"}]}
;; limit: names
;; expects: refused "tool name"
