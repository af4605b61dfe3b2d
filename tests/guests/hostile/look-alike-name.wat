;; Has a name with a Cyrillic letter that looks like a Latin one.
;;
;; descriptor: {"tools": [{"name": "re\u0430d_file"}]}
;; limit: names
;; expects: refused "tool name"
