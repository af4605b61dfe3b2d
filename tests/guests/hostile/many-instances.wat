;; Contains 2,000 core instances, each with a memory.
;;
;; more-instances: 2000
;; limit: instances, memories
;; expects: refused "instances"
