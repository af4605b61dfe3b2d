;; Traps while it is asked what it is.
;;
;; limit: describe
;; expects: refused "trap"

(func $describe (result i32)
  (unreachable))
