;; Starts nine requests, writes 8 MiB to the body of each, and finishes none: a host
;; that collects bodies without counting them stores 72 MiB.
;;
;; imports: wasi:http/types wasi:http/outgoing-handler wasi:io/streams
;; powers: http
;; limit: bytes across the boundary
;; expects: too_large

(import "wasi:http/types@0.2.12" "[constructor]fields" (func $fields (result i32)))
(import "wasi:http/types@0.2.12" "[constructor]outgoing-request"
  (func $request (param i32) (result i32)))
(import "wasi:http/types@0.2.12" "[method]outgoing-request.set-scheme"
  (func $set_scheme (param i32 i32 i32 i32 i32) (result i32)))
(import "wasi:http/types@0.2.12" "[method]outgoing-request.set-authority"
  (func $set_authority (param i32 i32 i32 i32) (result i32)))
(import "wasi:http/types@0.2.12" "[method]outgoing-request.set-path-with-query"
  (func $set_path (param i32 i32 i32 i32) (result i32)))
(import "wasi:http/types@0.2.12" "[method]outgoing-request.body" (func $body (param i32 i32)))
(import "wasi:http/types@0.2.12" "[method]outgoing-body.write" (func $stream (param i32 i32)))
(import "wasi:http/outgoing-handler@0.2.12" "handle" (func $handle (param i32 i32 i32 i32)))
(import "wasi:io/streams@0.2.12" "[method]output-stream.blocking-write-and-flush"
  (func $write (param i32 i32 i32 i32)))
(data (memory $memory) (i32.const 1024) "127.0.0.1")
(data (memory $memory) (i32.const 1100) "/")

(func $upload (local $request i32) (local $stream i32) (local $left i32)
  (local.set $request (call $request (call $fields)))
  (drop (call $set_scheme (local.get $request) (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 0)))
  (drop (call $set_authority (local.get $request) (i32.const 1) (i32.const 1024) (i32.const 9)))
  (drop (call $set_path (local.get $request) (i32.const 1) (i32.const 1100) (i32.const 1)))
  (call $body (local.get $request) (i32.const 16))
  (call $stream (i32.load $memory (i32.const 20)) (i32.const 32))
  (local.set $stream (i32.load $memory (i32.const 36)))
  (call $handle (local.get $request) (i32.const 0) (i32.const 0) (i32.const 48))
  (local.set $left (i32.const 2048))
  (loop $again
    (call $write (local.get $stream) (i32.const 4096) (i32.const 4096) (i32.const 64))
    (if (i32.load8_u $memory (i32.const 64)) (then (unreachable)))
    (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1))))))
(func $execute (param $call i32) (result i32) (local $left i32)
  (local.set $left (i32.const 9))
  (loop $again
    (call $upload)
    (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
  (global.get $returns))
