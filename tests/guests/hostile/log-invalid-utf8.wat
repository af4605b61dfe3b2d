;; Logs bytes that are not UTF-8.
;;
;; limit: ABI
;; expects: trapped

(import "tollgate:tool/call@0.1.0" "log" (func $log (param i32 i32 i32)))
(data (memory $memory) (i32.const 16) "\ff\fe\c0\80")
(func $execute (param $call i32) (result i32)
  (call $log (i32.const 1) (i32.const 16) (i32.const 4))
  (global.get $returns))
