;; Instantiates a component that it is given, so that nobody knows beforehand what it comes to.
;;
;; limit: loading
;; expects: refused "instantiates a component that it imports"

(component
  (component $twice
    (import "given" (component $given))
    (instance (instantiate $given))
    (instance (instantiate $given)))
  (component $one (core module $m) (core instance (instantiate $m)))
  (instance (instantiate $twice (with "given" (component $one)))))
