;; Returns 20 MiB from an ordinary function: one string of the letter a.
;;
;; world: export huge: func() -> string;
;; limit: bytes across the boundary
;; expects: too_large

(module
  (memory (export "memory") 322)
  (func (export "huge") (result i32)
    (memory.fill (i32.const 16) (i32.const 97) (i32.const 20971520))
    (i32.store (i32.const 0) (i32.const 16))
    (i32.store (i32.const 4) (i32.const 20971520))
    (i32.const 0)))
