;; Reads a key of the host and one of another component, and traps if it gets one.
;;
;; returns: {"ok": {"result": {"data": "\"refused\""}}}
;; limit: state
;; expects: succeeds

(import "tollgate:tool/call@0.1.0" "read-state" (func $read_state (param i32 i32 i32)))
(data (memory $memory) (i32.const 64) "host.runs")
(data (memory $memory) (i32.const 80) "notes.items")
(func $execute (param $call i32) (result i32)
  (call $read_state (i32.const 64) (i32.const 9) (i32.const 16))
  (call $read_state (i32.const 80) (i32.const 11) (i32.const 32))
  (if (i32.or (i32.load8_u $memory (i32.const 16)) (i32.load8_u $memory (i32.const 32)))
    (then (unreachable)))
  (global.get $returns))
