;; Could read its settings, and does not.
;;
;; world: include tollgate:tool/full-tool-component@0.1.0;
;; returns: {"ok": {"result": {"data": "null"}}}
;; expects: succeeds

(import "tollgate:tool/settings@0.1.0" "get" (func $get (param i32 i32 i32)))
(func $execute (param $call i32) (result i32)
  (global.get $returns))
