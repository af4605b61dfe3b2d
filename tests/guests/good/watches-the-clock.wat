;; Looks at one clock and the other, two thousand times in turn.
;;
;; imports: wasi:clocks/wall-clock wasi:clocks/monotonic-clock
;; expects: succeeds

(import "wasi:clocks/wall-clock@0.2.12" "now" (func $wall (param i32)))
(import "wasi:clocks/monotonic-clock@0.2.12" "now" (func $monotonic (result i64)))
(func $execute (param $call i32) (result i32) (local $left i32)
  (local.set $left (i32.const 2000))
  (loop $again
    (call $wall (i32.const 16))
    (drop (call $monotonic))
    (local.set $left (i32.sub (local.get $left) (i32.const 1)))
    (br_if $again (local.get $left)))
  (global.get $returns))
