;; Traps in `describe`.
;;
;; limit: describe
;; expects: refused "trap"

(func $describe (result i32)
  (unreachable))
