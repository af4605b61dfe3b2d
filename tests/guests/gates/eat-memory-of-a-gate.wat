;; Takes more memory than a question may have.
;;
;; kind: gate
;; limit: memory of a question
;; expects: out_of_memory

(memory $memory 4)
(func $judge (param $call i32) (result i32)
  (loop $again
    (drop (memory.grow $memory (i32.const 256)))
    (br $again))
  (unreachable))
