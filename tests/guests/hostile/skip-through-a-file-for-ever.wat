;; Makes the host read 64 KiB of a file 2,000 times through streams, and skips the
;; data.
;;
;; imports: wasi:filesystem/types wasi:filesystem/preopens wasi:io/streams
;; powers: files
;; limit: bytes across the boundary
;; expects: too_large

(import "wasi:filesystem/preopens@0.2.12" "get-directories" (func $directories (param i32)))
(import "wasi:filesystem/types@0.2.12" "[method]descriptor.open-at"
  (func $open (param i32 i32 i32 i32 i32 i32 i32)))
(import "wasi:filesystem/types@0.2.12" "[method]descriptor.read-via-stream" (func $stream (param i32 i64 i32)))
(import "wasi:io/streams@0.2.12" "[method]input-stream.blocking-skip" (func $skip (param i32 i64 i32)))
(import "wasi:io/streams@0.2.12" "[resource-drop]input-stream" (func $drop (param i32)))
(data (memory $memory) (i32.const 1024) "inside/large")
(func $dir (result i32)
  (call $directories (i32.const 16))
  (i32.load $memory (i32.load $memory (i32.const 16))))
(func $execute (param $call i32) (result i32) (local $file i32) (local $read i32) (local $stream i32)
  (call $open (call $dir) (i32.const 0) (i32.const 1024) (i32.const 12) (i32.const 0) (i32.const 1) (i32.const 32))
  (if (i32.load8_u $memory (i32.const 32)) (then (unreachable)))
  (local.set $file (i32.load $memory (i32.const 36)))
  (loop $again
    (call $stream (local.get $file) (i64.const 0) (i32.const 32))
    (if (i32.load8_u $memory (i32.const 32)) (then (unreachable)))
    (local.set $stream (i32.load $memory (i32.const 36)))
    (call $skip (local.get $stream) (i64.const 65536) (i32.const 64))
    (if (i32.load8_u $memory (i32.const 64)) (then (unreachable)))
    (call $drop (local.get $stream))
    (local.set $read (i32.add (local.get $read) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $read) (i32.const 2000))))
  (global.get $returns))
