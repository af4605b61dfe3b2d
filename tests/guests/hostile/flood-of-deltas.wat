;; Patches an activity 20,000 times with patches that are not JSON.
;;
;; limit: activity, progress, log, streamed output
;; expects: succeeds

(import "tollgate:tool/call@0.1.0" "report-activity-delta" (func $report (param i32 i32 i32 i32)))
(func $execute (param $call i32) (result i32)
  (local $left i32)
  (local.set $left (i32.const 20000))
  (loop $again
    (call $report (i32.const 16) (i32.const 2) (i32.const 16) (i32.const 100))
    (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
  (global.get $returns))
