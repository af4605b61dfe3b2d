;; Writes a single byte 1 TiB past the end of a file, with a function and with a
;; stream, and traps if that succeeds.
;;
;; imports: wasi:filesystem/types wasi:filesystem/preopens wasi:io/streams
;; powers: files
;; returns: {"ok": {"result": {"data": "\"refused\""}}}
;; limit: written bytes
;; expects: succeeds
;; denied: files: more bytes

(import "wasi:filesystem/preopens@0.2.12" "get-directories" (func $directories (param i32)))
(import "wasi:filesystem/types@0.2.12" "[method]descriptor.open-at"
  (func $open (param i32 i32 i32 i32 i32 i32 i32)))
(import "wasi:filesystem/types@0.2.12" "[method]descriptor.write"
  (func $write (param i32 i32 i32 i64 i32)))
(import "wasi:filesystem/types@0.2.12" "[method]descriptor.write-via-stream" (func $stream (param i32 i64 i32)))
(import "wasi:io/streams@0.2.12" "[method]output-stream.blocking-write-and-flush"
  (func $flush (param i32 i32 i32 i32)))
(data (memory $memory) (i32.const 1024) "farway")
(func $dir (result i32)
  (call $directories (i32.const 16))
  (i32.load $memory (i32.load $memory (i32.const 16))))
(func $execute (param $call i32) (result i32) (local $file i32)
  (call $open (call $dir) (i32.const 0) (i32.const 1024) (i32.const 6) (i32.const 1) (i32.const 2) (i32.const 32))
  (if (i32.load8_u $memory (i32.const 32)) (then (return (global.get $returns))))
  (local.set $file (i32.load $memory (i32.const 36)))
  (call $write (local.get $file) (i32.const 0) (i32.const 1) (i64.const 1099511627776) (i32.const 32))
  (if (i32.eqz (i32.load8_u $memory (i32.const 32))) (then (unreachable)))
  (call $stream (local.get $file) (i64.const 1099511627776) (i32.const 32))
  (if (i32.load8_u $memory (i32.const 32)) (then (unreachable)))
  (call $flush (i32.load $memory (i32.const 36)) (i32.const 0) (i32.const 1) (i32.const 64))
  (if (i32.eqz (i32.load8_u $memory (i32.const 64))) (then (unreachable)))
  (global.get $returns))
