;; Is text, which a host that accepts both formats would compile.
;;
;; form: text
;; limit: file
;; expects: refused "text"

(component (core module (func (export "x"))))
