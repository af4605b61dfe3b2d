;; Imports what a tool may: the reports and the state of the call.
;;
;; kind: gate
;; world: include tollgate:tool/gate-component@0.1.0; import tollgate:tool/call@0.1.0;
;; limit: imports
;; expects: refused "tollgate:tool/call"

(import "tollgate:tool/call@0.1.0" "is-cancelled" (func $is_cancelled (result i32)))
(func $judge (param $call i32) (result i32)
  (drop (call $is_cancelled))
  (global.get $returns))
