;; Logs 1,000 lines of 1 MiB.
;;
;; limit: bytes across the boundary
;; expects: too_large

(import "tollgate:tool/call@0.1.0" "log" (func $report (param i32 i32 i32)))
(memory $memory 32)
(func $execute (param $call i32) (result i32)
  (local $left i32)
  (local.set $left (i32.const 1000))
  (loop $again
    (call $report (i32.const 2) (i32.const 1048576) (i32.const 1048576))
    (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
  (global.get $returns))
