;; Sleeps for an hour in a host call, where epochs do not interrupt it.
;;
;; imports: wasi:clocks/monotonic-clock wasi:io/poll
;; limit: wall time
;; expects: timed_out

(import "wasi:clocks/monotonic-clock@0.2.12" "subscribe-duration"
  (func $subscribe (param i64) (result i32)))
(import "wasi:io/poll@0.2.12" "[method]pollable.block" (func $block (param i32)))
(func $execute (param $call i32) (result i32)
  (call $block (call $subscribe (i64.const 3600000000000)))
  (global.get $returns))
