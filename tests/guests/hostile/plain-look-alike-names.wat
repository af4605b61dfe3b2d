;; Exports two functions whose names look alike.
;;
;; world: export read-a1: func(); export read-al: func();
;; limit: names
;; expects: refused "look alike"

(module (func (export "read-a1")) (func (export "read-al")))
