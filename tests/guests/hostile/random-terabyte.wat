;; Requests a TiB of random bytes at once.
;;
;; imports: wasi:random/random
;; limit: random bytes asked at once
;; expects: trapped

(import "wasi:random/random@0.2.12" "get-random-bytes" (func $random (param i64 i32)))
(func $execute (param $call i32) (result i32)
  (call $random (i64.const 0x10000000000) (i32.const 16))
  (global.get $returns))
