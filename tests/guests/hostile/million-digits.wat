;; Returns a number with a million digits.
;;
;; limit: JSON
;; expects: malformed_output

(func $execute (param $call i32) (result i32) (local $text i32)
  (local.set $text (call $realloc (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 1000000)))
  (memory.fill $memory (local.get $text) (i32.const 55) (i32.const 1000000))
  (call $data (local.get $text) (i32.const 1000000))
  (global.get $returns))
