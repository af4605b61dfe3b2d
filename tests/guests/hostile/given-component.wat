;; Instantiates an imported component, so that its total size cannot be known in
;; advance.
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
