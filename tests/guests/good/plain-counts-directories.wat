;; Knows nothing of the contract, and says how many directories it was given.
;;
;; world: export directories: func() -> u32;
;; imports: wasi:filesystem/preopens
;; expects: succeeds

(module
  (import "wasi:filesystem/preopens@0.2.12" "get-directories" (func $directories (param i32)))
  (memory (export "memory") 1)
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
  (func (export "directories") (result i32)
    (call $directories (i32.const 16))
    (i32.load (i32.const 20))))
