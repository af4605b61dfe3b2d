;; Computes forever while checking its arguments, before the gate is asked.
;;
;; descriptor: {"tools": [{"execution": {"validates": true}}]}
;; limit: instructions
;; expects: out_of_fuel

(func $validate_args (param i32 i32 i32 i32) (result i32)
  (loop $again (br $again))
  (unreachable))
