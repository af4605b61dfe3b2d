;; Drops one handle twice, when the second drop could hit another handle.
;;
;; imports: wasi:clocks/monotonic-clock wasi:io/poll
;; limit: handles
;; expects: trapped

(import "wasi:clocks/monotonic-clock@0.2.12" "subscribe-duration"
  (func $subscribe (param i64) (result i32)))
(import "wasi:io/poll@0.2.12" "[resource-drop]pollable" (func $drop (param i32)))
(func $execute (param $call i32) (result i32) (local $handle i32)
  (local.set $handle (call $subscribe (i64.const 1)))
  (call $drop (local.get $handle))
  (call $drop (local.get $handle))
  (global.get $returns))
