;; Rolls dice, looks at both clocks, waits for 20 ms, looks again, and answers with
;; everything that it saw.
;;
;; imports: wasi:random/random wasi:random/insecure-seed wasi:clocks/wall-clock
;;   wasi:clocks/monotonic-clock wasi:io/poll
;; expects: succeeds

(import "wasi:random/random@0.2.12" "get-random-u64" (func $random (result i64)))
(import "wasi:random/insecure-seed@0.2.12" "insecure-seed" (func $seed (param i32)))
(import "wasi:clocks/wall-clock@0.2.12" "now" (func $wall (param i32)))
(import "wasi:clocks/monotonic-clock@0.2.12" "now" (func $monotonic (result i64)))
(import "wasi:clocks/monotonic-clock@0.2.12" "subscribe-duration"
  (func $subscribe (param i64) (result i32)))
(import "wasi:io/poll@0.2.12" "poll" (func $poll (param i32 i32 i32)))
(global $end (mut i32) (i32.const 1024))

;; Writes one byte.
(func $byte (param $byte i32)
  (i32.store8 $memory (global.get $end) (local.get $byte))
  (global.set $end (i32.add (global.get $end) (i32.const 1))))
;; Writes a number of 16 digits, the first of which is not 0, and a comma.
(func $number (param $number i64) (local $digits i32)
  (call $byte (i32.const 49))
  (local.set $digits (i32.const 15))
  (loop $next
    (call $byte (i32.add (i32.const 48)
      (i32.wrap_i64 (i64.rem_u (local.get $number) (i64.const 10)))))
    (local.set $number (i64.div_u (local.get $number) (i64.const 10)))
    (local.set $digits (i32.sub (local.get $digits) (i32.const 1)))
    (br_if $next (local.get $digits)))
  (call $byte (i32.const 44)))
(func $clocks
  (call $wall (i32.const 16))
  (call $number (i64.add
    (i64.mul (i64.load $memory (i32.const 16)) (i64.const 1000000000))
    (i64.load32_u $memory (i32.const 24))))
  (call $number (i64.div_u (call $monotonic) (i64.const 1000000))))
(func $execute (param $call i32) (result i32)
  (call $byte (i32.const 91))
  (call $number (call $random))
  (call $seed (i32.const 32))
  (call $number (i64.load $memory (i32.const 32)))
  (call $clocks)
  (i32.store $memory (i32.const 48) (call $subscribe (i64.const 20000000)))
  (i32.store $memory (i32.const 52) (call $subscribe (i64.const 3600000000000)))
  (call $poll (i32.const 48) (i32.const 2) (i32.const 56))
  (call $clocks)
  (call $number (i64.load32_u $memory (i32.const 60)))
  (i32.store8 $memory (i32.sub (global.get $end) (i32.const 1)) (i32.const 93))
  (call $data (i32.const 1024) (i32.sub (global.get $end) (i32.const 1024)))
  (global.get $returns))
