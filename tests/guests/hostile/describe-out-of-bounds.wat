;; Returns a description with a pointer outside of its memory.
;;
;; limit: describe
;; expects: refused "describe"

(func $describe (result i32)
  (i32.const 0xfffff000))
