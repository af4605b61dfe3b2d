;; Ends in the middle of a section.
;;
;; form: truncated 400
;; limit: file
;; expects: refused "valid"
