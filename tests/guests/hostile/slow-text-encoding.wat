;; Passes texts of 16 MiB in an encoding that the host takes seconds to decode, during
;; which nothing interrupts the call.
;;
;; limit: loading
;; expects: refused "latin1+utf16"

(component
  (core module $m
    (memory (export "memory") 300)
    (data (i32.const 8) "\10\00\00\00\00\00\00\01")
    (func (export "say") (result i32)
      (memory.fill (i32.const 16) (i32.const 233) (i32.const 16777216))
      (i32.const 8)))
  (core instance $i (instantiate $m))
  (func (export "say") (result string)
    (canon lift (core func $i "say") string-encoding=latin1+utf16 (memory (core memory $i "memory")))))
