;; Waits on a handle that it never received.
;;
;; imports: wasi:io/poll
;; limit: handles
;; expects: trapped

(import "wasi:io/poll@0.2.12" "[method]pollable.block" (func $block (param i32)))
(func $execute (param $call i32) (result i32)
  (call $block (i32.const 7))
  (global.get $returns))
