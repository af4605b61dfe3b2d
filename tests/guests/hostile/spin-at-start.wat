;; Computes forever in its start function, before any export is called.
;;
;; limit: describe
;; expects: refused "fuel"

(func $spin (loop $again (br $again)))
(start $spin)
