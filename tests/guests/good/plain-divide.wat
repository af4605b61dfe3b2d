;; Knows nothing of the contract: exports a function that divides, or says why it cannot.
;;
;; world: export arithmetic:plain/whole@2.0.0;
;; wit: package arithmetic:plain@2.0.0 {
;;   interface whole {
;;     enum problem { by-zero, uneven }
;;     divide: func(dividend: u32, divisor: u32) -> result<u32, problem>;
;;     resource calculator;
;;     open: func() -> calculator;
;;   }
;;   }
;; expects: succeeds

(module
  (import "[export]arithmetic:plain/whole@2.0.0" "[resource-new]calculator" (func $new (param i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "arithmetic:plain/whole@2.0.0#open") (result i32) (call $new (i32.const 1)))
  (func (export "arithmetic:plain/whole@2.0.0#divide") (param $dividend i32) (param $divisor i32) (result i32)
    (if (i32.eqz (local.get $divisor))
      (then (i32.store8 (i32.const 0) (i32.const 1)) (i32.store8 (i32.const 4) (i32.const 0)) (return (i32.const 0))))
    (if (i32.rem_u (local.get $dividend) (local.get $divisor))
      (then (i32.store8 (i32.const 0) (i32.const 1)) (i32.store8 (i32.const 4) (i32.const 1)) (return (i32.const 0))))
    (i32.store (i32.const 4) (i32.div_u (local.get $dividend) (local.get $divisor)))
    (i32.const 0)))
