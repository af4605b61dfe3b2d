;; Offers no tool at all.
;;
;; descriptor: {"tools": []}
;; limit: descriptor
;; expects: refused "tool"
