;; Sends an HTTP request, and traps if it may.
;;
;; imports: wasi:http/types wasi:http/outgoing-handler
;; returns: {"ok": {"result": {"data": "\"refused\""}}}
;; limit: powers
;; expects: succeeds

(import "wasi:http/types@0.2.12" "[constructor]fields" (func $fields (result i32)))
(import "wasi:http/types@0.2.12" "[constructor]outgoing-request"
  (func $request (param i32) (result i32)))
(import "wasi:http/outgoing-handler@0.2.12" "handle" (func $handle (param i32 i32 i32 i32)))
(func $execute (param $call i32) (result i32)
  (call $handle (call $request (call $fields)) (i32.const 0) (i32.const 0) (i32.const 16))
  (if (i32.eqz (i32.load8_u $memory (i32.const 16))) (then (unreachable)))
  (global.get $returns))
