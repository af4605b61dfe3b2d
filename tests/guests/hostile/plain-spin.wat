;; Knows nothing of the contract, and spins for ever in the function that it exports.
;;
;; world: export spin: func() -> u32;
;; limit: instructions
;; expects: out_of_fuel

(module (func (export "spin") (result i32) (loop $again (br $again)) (unreachable)))
