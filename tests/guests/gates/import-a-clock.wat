;; Imports a clock, by which it could judge otherwise at another time.
;;
;; kind: gate
;; imports: wasi:clocks/wall-clock
;; limit: imports
;; expects: refused "wasi:clocks/wall-clock"

(import "wasi:clocks/wall-clock@0.2.12" "now" (func $now (param i32)))
(func $judge (param $call i32) (result i32)
  (call $now (i32.const 0))
  (global.get $returns))
