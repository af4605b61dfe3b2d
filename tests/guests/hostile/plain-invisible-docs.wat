;; Documents its function with text that a model reads but a person does not see.
;;
;; limit: description
;; expects: succeeds

(component
  (@custom "package-docs" "\01{\"worlds\":{\"root\":{\"func_exports\":{\"look\":{\"docs\":\"Looks\e2\80\ae \\u001b[31m\f3\a0\81\81around.\"}}}}}")
  (core module $code (func (export "look")))
  (core instance $instance (instantiate $code))
  (func (export "look") (canon lift (core func $instance "look"))))
