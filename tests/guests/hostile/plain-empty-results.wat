;; Returns 300,000 results without a value from an ordinary function, each of which
;; becomes two JSON values.
;;
;; world: export results: func() -> list<result>;
;; limit: JSON nodes
;; expects: malformed_output

(module
  (memory (export "memory") 80)
  (func (export "results") (result i32)
    (i32.store (i32.const 0) (i32.const 16))
    (i32.store (i32.const 4) (i32.const 300000))
    (i32.const 0)))
