;; Has a name that a terminal shows backwards.
;;
;; descriptor: {"tools": [{"tool name": "file\u202edelete"}]}
;; limit: names
;; expects: refused "tool name"
