;; Does not know the contract, and loops forever in its exported function.
;;
;; world: export spin: func() -> u32;
;; limit: instructions
;; expects: out_of_fuel

(module (func (export "spin") (result i32) (loop $again (br $again)) (unreachable)))
