;; Offers no tools.
;;
;; descriptor: {"tools": []}
;; limit: descriptor
;; expects: refused "tool"
