;; Exports two functions of which one looks like the other.
;;
;; world: export read-a1: func(); export read-al: func();
;; limit: names
;; expects: refused "look alike"

(module (func (export "read-a1")) (func (export "read-al")))
