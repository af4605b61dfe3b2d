;; Logs a line outside of its memory.
;;
;; limit: ABI
;; expects: trapped

(import "tollgate:tool/call@0.1.0" "log" (func $log (param i32 i32 i32)))
(func $execute (param $call i32) (result i32)
  (call $log (i32.const 2) (i32.const 0xfffff000) (i32.const 0x1000))
  (global.get $returns))
