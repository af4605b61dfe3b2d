;; Exits in `describe`.
;;
;; imports: wasi:cli/exit
;; limit: describe
;; expects: refused "exit"

(import "wasi:cli/exit@0.2.12" "exit" (func $exit (param i32)))
(func $describe (result i32)
  (call $exit (i32.const 0))
  (unreachable))
