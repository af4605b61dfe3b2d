;; Computes for ever in its start function, before anything of it is called.
;;
;; limit: describe
;; expects: refused "fuel"

(func $spin (loop $again (br $again)))
(start $spin)
