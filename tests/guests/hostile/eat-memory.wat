;; Grows its memory one page at a time until growing fails.
;;
;; limit: memory
;; expects: out_of_memory

(func $execute (param $call i32) (result i32)
  (loop $again
    (br_if $again (i32.ne (memory.grow $memory (i32.const 1)) (i32.const -1))))
  (global.get $returns))
