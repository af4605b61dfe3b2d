;; Denies with a reason of 32 MiB, to fill the host's memory.
;;
;; kind: gate
;; limit: bytes in one crossing
;; expects: too_large

(memory $memory 600)
(func $judge (param $call i32) (result i32)
  (i32.store8 $memory (i32.const 16) (i32.const 1))
  (i32.store $memory (i32.const 20) (i32.const 0))
  (i32.store $memory (i32.const 24) (i32.const 33554432))
  (i32.const 16))
