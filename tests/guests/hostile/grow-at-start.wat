;; Grows to 100 MiB in its start function.
;;
;; limit: memory
;; expects: refused "memory"

(func $grow (drop (memory.grow $memory (i32.const 1600))))
(start $grow)
