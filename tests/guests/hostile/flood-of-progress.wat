;; Reports 20,000 times a progress that is not a number.
;;
;; limit: activity, progress, log, streamed output
;; expects: succeeds

(import "tollgate:tool/call@0.1.0" "report-progress" (func $report (param i32 i32 i32 i32 i32 f64)))
(func $execute (param $call i32) (result i32)
  (local $left i32)
  (local.set $left (i32.const 20000))
  (loop $again
    (call $report (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 0)
      (i32.const 1) (f64.const nan))
    (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
  (global.get $returns))
