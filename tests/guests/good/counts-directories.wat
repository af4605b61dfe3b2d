;; Says how many directories it was given.
;;
;; imports: wasi:filesystem/preopens
;; expects: succeeds

(import "wasi:filesystem/preopens@0.2.12" "get-directories" (func $directories (param i32)))
(func $execute (param $call i32) (result i32)
  (call $directories (i32.const 16))
  (i32.store8 $memory (i32.const 32) (i32.add (i32.const 48) (i32.load $memory (i32.const 20))))
  (call $data (i32.const 32) (i32.const 1))
  (global.get $returns))
