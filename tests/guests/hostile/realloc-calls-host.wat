;; Calls the host while the host requests memory.
;;
;; limit: ABI
;; expects: trapped

(import "tollgate:tool/call@0.1.0" "is-cancelled" (func $is_cancelled (result i32)))
(func $realloc (param i32 i32 i32 i32) (result i32)
  (drop (call $is_cancelled))
  (i32.const 16))
