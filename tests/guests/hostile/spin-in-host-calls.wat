;; Asks the host forever whether it is cancelled.
;;
;; limit: instructions
;; expects: out_of_fuel

(import "tollgate:tool/call@0.1.0" "is-cancelled" (func $is_cancelled (result i32)))
(func $execute (param $call i32) (result i32)
  (loop $again
    (br_if $again (i32.eqz (call $is_cancelled)))
    (br $again))
  (unreachable))
