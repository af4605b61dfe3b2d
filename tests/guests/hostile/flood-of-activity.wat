;; Reports 20,000 activities, each of a different kind.
;;
;; limit: activity, progress, log, streamed output
;; expects: succeeds

(import "tollgate:tool/call@0.1.0" "report-activity" (func $report (param i32 i32 i32 i32)))
(func $execute (param $call i32) (result i32)
  (local $left i32)
  (local.set $left (i32.const 20000))
  (loop $again
    (i32.store16 $memory (i32.const 16)
      (i32.add (i32.const 0x6161) (i32.and (local.get $left) (i32.const 0x0f0f))))
    (call $report (i32.const 16) (i32.const 2) (i32.const 16) (i32.const 100))
    (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
  (global.get $returns))
