;; Returns a string outside of its memory.
;;
;; limit: ABI
;; expects: malformed_output

(func $execute (param $call i32) (result i32)
  (call $data (i32.const 0xfffff000) (i32.const 0x1000))
  (global.get $returns))
