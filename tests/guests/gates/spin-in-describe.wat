;; Computes forever when it is asked what it is.
;;
;; kind: gate
;; limit: fuel of a question
;; expects: refused "out_of_fuel"

(func $describe (result i32)
  (loop $again (br $again))
  (unreachable))
