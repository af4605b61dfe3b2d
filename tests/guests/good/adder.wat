;; Adds one to a number of its thread, and says what the number was.
;;
;; descriptor: {"state": [{"key": "adder.total", "read": true, "write": true,
;;   "defines": {"initial": "0", "reducer": "add", "scope": "thread", "persistent": true}}]}
;; returns: {"ok": {"result": {"data": "null"}, "mutations": [{"key": "adder.total", "update": "1"}]}}
;; expects: succeeds

(import "tollgate:tool/call@0.1.0" "read-state" (func $read_state (param i32 i32 i32)))
(data (memory $memory) (i32.const 64) "adder.total")
(func $execute (param $call i32) (result i32)
  (call $read_state (i32.const 64) (i32.const 11) (i32.const 16))
  (if (i32.load8_u $memory (i32.const 16))
    (then (call $data (i32.load $memory (i32.const 20)) (i32.load $memory (i32.const 24)))))
  (global.get $returns))
