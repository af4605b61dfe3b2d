;; Documents its function with 64 KiB of tiny objects.
;;
;; docs: {"$join": ["\u0001{\"worlds\":[", {"$repeat": ["{\"\":0},", 9300]}, "0]}"]}
;; limit: description
;; expects: succeeds

(component
  (core module $code (func (export "look")))
  (core instance $instance (instantiate $code))
  (func (export "look") (canon lift (core func $instance "look"))))
