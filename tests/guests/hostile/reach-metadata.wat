;; Sends a request to a cloud's metadata address, which returns credentials, with a
;; grant for every host, and traps unless it is refused.
;;
;; imports: wasi:http/types wasi:http/outgoing-handler wasi:io/poll
;; powers: http
;; returns: {"ok": {"result": {"data": "\"refused\""}}}
;; limit: HTTP
;; expects: succeeds
;; denied: http 

(import "wasi:http/types@0.2.12" "[constructor]fields" (func $fields (result i32)))
(import "wasi:http/types@0.2.12" "[constructor]outgoing-request"
  (func $request (param i32) (result i32)))
(import "wasi:http/types@0.2.12" "[method]outgoing-request.set-scheme"
  (func $set_scheme (param i32 i32 i32 i32 i32) (result i32)))
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
(data (memory $memory) (i32.const 1024) "169.254.169.254")
(data (memory $memory) (i32.const 1100) "/")

;; Traps unless the error is that the address is prohibited, or no address at all. That
;; nobody listens there is found out by trying.
(func $must_be_refused (param $error i32)
  (if (i32.and (i32.ne (local.get $error) (i32.const 4)) (i32.ne (local.get $error) (i32.const 19)))
    (then (unreachable))))
(func $execute (param $call i32) (result i32) (local $request i32) (local $answer i32)
  (local.set $request (call $request (call $fields)))
  (drop (call $set_scheme (local.get $request) (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 0)))
  (drop (call $set_authority (local.get $request) (i32.const 1) (i32.const 1024) (i32.const 15)))
  (drop (call $set_path (local.get $request) (i32.const 1) (i32.const 1100) (i32.const 1)))
  (call $handle (local.get $request) (i32.const 0) (i32.const 0) (i32.const 16))
  (if (i32.load8_u $memory (i32.const 16))
    (then
      (call $must_be_refused (i32.load8_u $memory (i32.const 24)))
      (return (global.get $returns))))
  (local.set $answer (i32.load $memory (i32.const 24)))
  (call $block (call $subscribe (local.get $answer)))
  (call $get (local.get $answer) (i32.const 512))
  ;; some(ok(err(..)))
  (if (i32.eqz (i32.load8_u $memory (i32.const 528))) (then (unreachable)))
  (call $must_be_refused (i32.load8_u $memory (i32.const 536)))
  (global.get $returns))
