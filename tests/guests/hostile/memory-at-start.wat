;; Has 100 MiB of memory from the start.
;;
;; limit: memory
;; expects: refused "memory"

(memory $memory 1600)
