;; Reads a value of its thread and does nothing with it.
;;
;; descriptor: {"state": [{"key": "reads-state.text", "read": true,
;;   "defines": {"initial": "\"\"", "reducer": "replace", "scope": "thread", "persistent": true}}]}
;; expects: succeeds

(import "tollgate:tool/call@0.1.0" "read-state" (func $read_state (param i32 i32 i32)))
(data (memory $memory) (i32.const 64) "reads-state.text")
(func $execute (param $call i32) (result i32)
  (call $read_state (i32.const 64) (i32.const 16) (i32.const 16))
  (if (i32.eqz (i32.load8_u $memory (i32.const 16))) (then (unreachable)))
  (global.get $returns))
