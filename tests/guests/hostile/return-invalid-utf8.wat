;; Returns bytes that are not UTF-8.
;;
;; limit: ABI
;; expects: malformed_output

(data (memory $memory) (i32.const 16) "\22\ff\fe\c0\80\22")
(func $execute (param $call i32) (result i32)
  (call $data (i32.const 16) (i32.const 6))
  (global.get $returns))
