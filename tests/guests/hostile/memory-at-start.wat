;; Declares 100 MiB of initial memory.
;;
;; limit: memory
;; expects: refused "memory"

(memory $memory 1600)
