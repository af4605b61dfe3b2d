;; Returns a pointer that is not aligned for its type.
;;
;; limit: ABI
;; expects: malformed_output

(func $execute (param $call i32) (result i32)
  (i32.add (global.get $returns) (i32.const 1)))
