;; Reports progress in phases, a change of its activity, and more after the whole, and succeeds.
;;
;; expects: succeeds

(import "tollgate:tool/call@0.1.0" "report-progress"
  (func $progress (param i32 i32 i32 i32 i32 f64)))
(import "tollgate:tool/call@0.1.0" "report-activity-delta" (func $change (param i32 i32 i32 i32)))
(data (memory $memory) (i32.const 16) "files")
(data (memory $memory) (i32.const 24) "more")
(data (memory $memory) (i32.const 32) "[{\"op\":\"add\",\"path\":\"/read\",\"value\":3}]")
(func $execute (param $call i32) (result i32)
  (call $progress (i32.const 0) (i32.const 1) (i32.const 16) (i32.const 5)
    (i32.const 0) (f64.const 0))
  (call $change (i32.const 16) (i32.const 5) (i32.const 32) (i32.const 39))
  (call $progress (i32.const 2) (i32.const 1) (i32.const 16) (i32.const 5)
    (i32.const 1) (f64.const 1))
  (call $progress (i32.const 1) (i32.const 1) (i32.const 24) (i32.const 4)
    (i32.const 1) (f64.const 1))
  (global.get $returns))
