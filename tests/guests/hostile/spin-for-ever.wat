;; Computes forever, so that only a limit ends it.
;;
;; limit: instructions
;; expects: out_of_fuel

(func $execute (param $call i32) (result i32)
  (loop $again (br $again))
  (unreachable))
