;; Returns the 200th case of a variant that has two.
;;
;; limit: ABI
;; expects: malformed_output

(func $execute (param $call i32) (result i32)
  (i32.store8 $memory (global.get $returns) (i32.const 200))
  (global.get $returns))
