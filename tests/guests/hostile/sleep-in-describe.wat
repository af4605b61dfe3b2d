;; Sleeps for an hour in `describe`, whose waits end at once, and then traps.
;;
;; imports: wasi:clocks/monotonic-clock wasi:io/poll
;; limit: describe
;; expects: refused "trap"

(import "wasi:clocks/monotonic-clock@0.2.12" "subscribe-duration"
  (func $subscribe (param i64) (result i32)))
(import "wasi:io/poll@0.2.12" "[method]pollable.block" (func $block (param i32)))
(func $describe (result i32)
  (call $block (call $subscribe (i64.const 3600000000000)))
  (unreachable))
