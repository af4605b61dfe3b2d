;; Creates a million clock handles and drops none.
;;
;; imports: wasi:clocks/monotonic-clock wasi:io/poll
;; limit: handles
;; expects: out_of_resources

(import "wasi:clocks/monotonic-clock@0.2.12" "subscribe-duration"
  (func $subscribe (param i64) (result i32)))
(func $execute (param $call i32) (result i32)
  (local $left i32)
  (local.set $left (i32.const 1000000))
  (loop $again
    (drop (call $subscribe (i64.const 1000000)))
    (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
  (global.get $returns))
