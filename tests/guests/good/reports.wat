;; Reports progress, activity, a piece of output and a log line, and succeeds.
;;
;; expects: succeeds

(import "tollgate:tool/call@0.1.0" "report-progress"
  (func $progress (param i32 i32 i32 i32 i32 f64)))
(import "tollgate:tool/call@0.1.0" "report-activity" (func $activity (param i32 i32 i32 i32)))
(import "tollgate:tool/call@0.1.0" "stream-output" (func $stream (param i32 i32)))
(import "tollgate:tool/call@0.1.0" "log" (func $log (param i32 i32 i32)))
(data (memory $memory) (i32.const 16) "halfway")
(func $execute (param $call i32) (result i32)
  (call $progress (i32.const 1) (i32.const 1) (i32.const 16) (i32.const 7)
    (i32.const 1) (f64.const 0.5))
  (call $activity (i32.const 16) (i32.const 4) (i32.const 16) (i32.const 7))
  (call $stream (i32.const 16) (i32.const 7))
  (call $log (i32.const 2) (i32.const 16) (i32.const 7))
  (global.get $returns))
