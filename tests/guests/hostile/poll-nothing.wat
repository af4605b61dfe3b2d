;; Polls an empty list.
;;
;; imports: wasi:io/poll
;; limit: traps
;; expects: trapped

(import "wasi:io/poll@0.2.12" "poll" (func $poll (param i32 i32 i32)))
(func $execute (param $call i32) (result i32)
  (call $poll (i32.const 16) (i32.const 0) (i32.const 32))
  (global.get $returns))
