;; Returns from an ordinary function and then loops forever in its cleanup.
;;
;; world: export name: func() -> string;
;; limit: instructions
;; expects: out_of_fuel

(module
  (memory (export "memory") 1)
  (func (export "name") (result i32) (i32.const 0))
  (func (export "cabi_post_name") (param i32) (loop $again (br $again))))
