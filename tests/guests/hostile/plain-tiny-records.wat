;; Returns 200,000 one-field records from an ordinary function, which take more than
;; 100 MB as JSON.
;;
;; world: export take: interface {
;;   record one { a: bool }
;;   records: func() -> list<one>;
;;   }
;; limit: bytes across the boundary
;; expects: too_large

(module
  (memory (export "memory") 80)
  (func (export "take#records") (result i32)
    (i32.store (i32.const 0) (i32.const 16))
    (i32.store (i32.const 4) (i32.const 200000))
    (i32.const 0)))
