;; Answers the host's request for memory with an address outside of its own.
;;
;; limit: ABI
;; expects: trapped

(func $realloc (param i32 i32 i32 i32) (result i32)
  (i32.const 0xfffff000))
