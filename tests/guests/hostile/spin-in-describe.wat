;; Computes for ever while it is asked what it is.
;;
;; limit: describe
;; expects: refused "fuel"

(func $describe (result i32)
  (loop $again (br $again))
  (unreachable))
