;; Is text, which a host that takes both would compile.
;;
;; form: text
;; limit: file
;; expects: refused "text"

(component (core module (func (export "x"))))
