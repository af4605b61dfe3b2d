;; Computes for ever where the host asks it for memory to put the arguments in.
;;
;; limit: instructions
;; expects: out_of_fuel

(func $realloc (param i32 i32 i32 i32) (result i32)
  (loop $again (br $again))
  (unreachable))
