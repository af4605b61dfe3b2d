;; Sets the last element of 20 tables of a million elements, which compile to 100 MiB.
;;
;; limit: loading
;; expects: refused "its compiled form takes"

(component
  (core module $code
    (func $f (export "f"))
    (table $t0 1048576 funcref) (elem (table $t0) (i32.const 1048575) func $f)
    (table $t1 1048576 funcref) (elem (table $t1) (i32.const 1048575) func $f)
    (table $t2 1048576 funcref) (elem (table $t2) (i32.const 1048575) func $f)
    (table $t3 1048576 funcref) (elem (table $t3) (i32.const 1048575) func $f)
    (table $t4 1048576 funcref) (elem (table $t4) (i32.const 1048575) func $f)
    (table $t5 1048576 funcref) (elem (table $t5) (i32.const 1048575) func $f)
    (table $t6 1048576 funcref) (elem (table $t6) (i32.const 1048575) func $f)
    (table $t7 1048576 funcref) (elem (table $t7) (i32.const 1048575) func $f)
    (table $t8 1048576 funcref) (elem (table $t8) (i32.const 1048575) func $f)
    (table $t9 1048576 funcref) (elem (table $t9) (i32.const 1048575) func $f)
    (table $t10 1048576 funcref) (elem (table $t10) (i32.const 1048575) func $f)
    (table $t11 1048576 funcref) (elem (table $t11) (i32.const 1048575) func $f)
    (table $t12 1048576 funcref) (elem (table $t12) (i32.const 1048575) func $f)
    (table $t13 1048576 funcref) (elem (table $t13) (i32.const 1048575) func $f)
    (table $t14 1048576 funcref) (elem (table $t14) (i32.const 1048575) func $f)
    (table $t15 1048576 funcref) (elem (table $t15) (i32.const 1048575) func $f)
    (table $t16 1048576 funcref) (elem (table $t16) (i32.const 1048575) func $f)
    (table $t17 1048576 funcref) (elem (table $t17) (i32.const 1048575) func $f)
    (table $t18 1048576 funcref) (elem (table $t18) (i32.const 1048575) func $f)
    (table $t19 1048576 funcref) (elem (table $t19) (i32.const 1048575) func $f))
  (core instance $instance (instantiate $code))
  (func $f (canon lift (core func $instance "f")))
  (export "f" (func $f)))
