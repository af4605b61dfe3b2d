;; Sets a header field to 650,000 values of one byte, with its memory full. In the guest a
;; value is eight bytes, which point to the same letter; in the host it is a list.
;;
;; imports: wasi:http/types
;; limit: bytes across the boundary
;; expects: too_large

(import "wasi:http/types@0.2.12" "[constructor]fields" (func $fields (result i32)))
(import "wasi:http/types@0.2.12" "[method]fields.set"
  (func $set (param i32 i32 i32 i32 i32 i32)))
(memory $memory 1000)
(data (memory $memory) (i32.const 1024) "x-tiny")

(func $execute (param $call i32) (result i32) (local $at i32)
  (memory.fill $memory (i32.const 7300000) (i32.const 1) (i32.const 57700000))
  ;; A value has 8 bytes: the address and the length of one letter.
  (local.set $at (i32.const 2000000))
  (loop $next
    (i32.store $memory (local.get $at) (i32.const 1024))
    (i32.store $memory offset=4 (local.get $at) (i32.const 1))
    (br_if $next
      (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 8))) (i32.const 7200000))))
  (call $set (call $fields) (i32.const 1024) (i32.const 6)
    (i32.const 2000000) (i32.const 650000) (i32.const 16))
  (global.get $returns))
