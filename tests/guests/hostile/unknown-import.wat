;; Imports a power that no host has.
;;
;; world: include tollgate:tool/tool-component@0.1.0; import evil:power/take;
;; wit: package evil:power { interface take { everything: func(); } }
;; limit: imports
;; expects: refused "evil:power/take"

(import "evil:power/take" "everything" (func $take))
(func $execute (param $call i32) (result i32)
  (call $take)
  (global.get $returns))
