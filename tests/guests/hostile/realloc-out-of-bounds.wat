;; Answers the host's memory request with an address outside of its memory.
;;
;; limit: ABI
;; expects: trapped

(func $realloc (param i32 i32 i32 i32) (result i32)
  (i32.const 0xfffff000))
