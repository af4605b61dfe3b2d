;; Waits for the same moment two million times at once: 8 MiB in its memory, and a list
;; of as many handles in the host.
;;
;; imports: wasi:clocks/monotonic-clock wasi:io/poll
;; limit: bytes across the boundary
;; expects: too_large

(import "wasi:clocks/monotonic-clock@0.2.12" "subscribe-duration"
  (func $subscribe (param i64) (result i32)))
(import "wasi:io/poll@0.2.12" "poll" (func $poll (param i32 i32 i32)))
(memory $memory 200)
(func $execute (param $call i32) (result i32) (local $bytes i32)
  (i32.store $memory (i32.const 1048576) (call $subscribe (i64.const 0)))
  (local.set $bytes (i32.const 4))
  (loop $again
    (memory.copy $memory $memory
      (i32.add (i32.const 1048576) (local.get $bytes)) (i32.const 1048576) (local.get $bytes))
    (local.set $bytes (i32.shl (local.get $bytes) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $bytes) (i32.const 8388608))))
  (call $poll (i32.const 1048576) (i32.const 2097152) (i32.const 16))
  (global.get $returns))
