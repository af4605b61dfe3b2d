;; Logs at a level that does not exist.
;;
;; limit: ABI
;; expects: trapped

(import "tollgate:tool/call@0.1.0" "log" (func $log (param i32 i32 i32)))
(func $execute (param $call i32) (result i32)
  (call $log (i32.const 99) (i32.const 16) (i32.const 4))
  (global.get $returns))
