;; Writes bodies of 1,000 requests that are never sent, each as large as allowed.
;;
;; imports: wasi:http/types wasi:io/streams
;; limit: handles
;; expects: succeeds

(import "wasi:http/types@0.2.12" "[constructor]fields" (func $fields (result i32)))
(import "wasi:http/types@0.2.12" "[constructor]outgoing-request"
  (func $request (param i32) (result i32)))
(import "wasi:http/types@0.2.12" "[method]outgoing-request.body" (func $body (param i32 i32)))
(import "wasi:http/types@0.2.12" "[method]outgoing-body.write" (func $stream (param i32 i32)))
(import "wasi:io/streams@0.2.12" "[method]output-stream.check-write"
  (func $check_write (param i32 i32)))
(import "wasi:io/streams@0.2.12" "[method]output-stream.write"
  (func $write (param i32 i32 i32 i32)))

(func $execute (param $call i32) (result i32)
  (local $text i32) (local $stream i32) (local $left i32)
  (local.set $text (call $realloc (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 2097152)))
  (local.set $left (i32.const 1000))
  (loop $again
    (call $body (call $request (call $fields)) (i32.const 16))
    (call $stream (i32.load $memory (i32.const 20)) (i32.const 32))
    (local.set $stream (i32.load $memory (i32.const 36)))
    (call $check_write (local.get $stream) (i32.const 48))
    (call $write (local.get $stream) (local.get $text)
      (i32.load $memory (i32.const 56)) (i32.const 64))
    (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
  (global.get $returns))
