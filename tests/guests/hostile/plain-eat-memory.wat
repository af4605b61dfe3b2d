;; Grows its memory in an ordinary function until growing fails.
;;
;; world: export eat: func() -> u32;
;; limit: memory
;; expects: out_of_memory

(module
  (memory (export "memory") 1)
  (func (export "eat") (result i32)
    (loop $again (drop (memory.grow (i32.const 1))) (br $again))
    (unreachable)))
