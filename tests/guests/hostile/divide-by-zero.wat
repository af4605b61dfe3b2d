;; Divides by zero.
;;
;; limit: traps
;; expects: trapped

(func $execute (param $call i32) (result i32)
  (i32.div_u (global.get $returns) (i32.const 0)))
