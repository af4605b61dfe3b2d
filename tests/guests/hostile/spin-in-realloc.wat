;; Computes forever when the host requests memory for the arguments.
;;
;; limit: instructions
;; expects: out_of_fuel

(func $realloc (param i32 i32 i32 i32) (result i32)
  (loop $again (br $again))
  (unreachable))
