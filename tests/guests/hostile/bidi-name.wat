;; Has a name that a terminal shows backwards.
;;
;; descriptor: {"tools": [{"name": "file\u202edelete"}]}
;; limit: names
;; expects: refused "tool name"
