;; Computes forever in `describe`.
;;
;; limit: describe
;; expects: refused "fuel"

(func $describe (result i32)
  (loop $again (br $again))
  (unreachable))
