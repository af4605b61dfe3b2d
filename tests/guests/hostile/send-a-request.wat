;; Sends an HTTP request and waits for the response, and traps unless it is refused as
;; not granted.
;;
;; imports: wasi:http/types wasi:http/outgoing-handler wasi:io/poll
;; returns: {"ok": {"result": {"data": "\"refused\""}}}
;; limit: powers
;; expects: succeeds
;; denied: http GET http

(import "wasi:http/types@0.2.12" "[constructor]fields" (func $fields (result i32)))
(import "wasi:http/types@0.2.12" "[constructor]outgoing-request"
  (func $request (param i32) (result i32)))
(import "wasi:http/types@0.2.12" "[method]outgoing-request.set-authority"
  (func $set_authority (param i32 i32 i32 i32) (result i32)))
(import "wasi:http/types@0.2.12" "[method]outgoing-request.set-path-with-query"
  (func $set_path (param i32 i32 i32 i32) (result i32)))
(import "wasi:http/types@0.2.12" "[method]future-incoming-response.subscribe"
  (func $subscribe (param i32) (result i32)))
(import "wasi:http/types@0.2.12" "[method]future-incoming-response.get"
  (func $get (param i32 i32)))
(import "wasi:http/outgoing-handler@0.2.12" "handle" (func $handle (param i32 i32 i32 i32)))
(import "wasi:io/poll@0.2.12" "[method]pollable.block" (func $block (param i32)))
(data (memory $memory) (i32.const 1024) "localhost:1")
(data (memory $memory) (i32.const 1100) "/")

;; HTTP-request-denied. That nobody listens there is found out by trying.
(func $must_be_denied (param $error i32)
  (if (i32.ne (local.get $error) (i32.const 15)) (then (unreachable))))
(func $execute (param $call i32) (result i32) (local $request i32) (local $answer i32)
  (local.set $request (call $request (call $fields)))
  (drop (call $set_authority (local.get $request) (i32.const 1) (i32.const 1024) (i32.const 11)))
  (drop (call $set_path (local.get $request) (i32.const 1) (i32.const 1100) (i32.const 1)))
  (call $handle (local.get $request) (i32.const 0) (i32.const 0) (i32.const 16))
  (if (i32.load8_u $memory (i32.const 16))
    (then
      (call $must_be_denied (i32.load8_u $memory (i32.const 24)))
      (return (global.get $returns))))
  (local.set $answer (i32.load $memory (i32.const 24)))
  (call $block (call $subscribe (local.get $answer)))
  (call $get (local.get $answer) (i32.const 512))
  ;; some(ok(err(..)))
  (if (i32.eqz (i32.load8_u $memory (i32.const 528))) (then (unreachable)))
  (call $must_be_denied (i32.load8_u $memory (i32.const 536)))
  (global.get $returns))
