;; Has the host copy a file of 1 MiB to its standard output 400 times, 4 KiB at a time:
;; nothing enters its own memory.
;;
;; imports: wasi:filesystem/types wasi:filesystem/preopens wasi:io/streams wasi:cli/stdout
;; powers: files
;; limit: bytes across the boundary
;; expects: too_large

(import "wasi:filesystem/preopens@0.2.12" "get-directories" (func $directories (param i32)))
(import "wasi:filesystem/types@0.2.12" "[method]descriptor.open-at"
  (func $open (param i32 i32 i32 i32 i32 i32 i32)))
(import "wasi:filesystem/types@0.2.12" "[method]descriptor.read-via-stream" (func $stream (param i32 i64 i32)))
(import "wasi:io/streams@0.2.12" "[method]output-stream.blocking-splice"
  (func $splice (param i32 i32 i64 i32)))
(import "wasi:cli/stdout@0.2.12" "get-stdout" (func $stdout (result i32)))
(import "wasi:io/streams@0.2.12" "[resource-drop]input-stream" (func $drop (param i32)))
(data (memory $memory) (i32.const 1024) "inside/large")
(func $dir (result i32)
  (call $directories (i32.const 16))
  (i32.load $memory (i32.load $memory (i32.const 16))))
(func $execute (param $call i32) (result i32)
  (local $file i32) (local $copied i32) (local $stream i32) (local $stdout i32)
  (local.set $stdout (call $stdout))
  (call $open (call $dir) (i32.const 0) (i32.const 1024) (i32.const 12) (i32.const 0) (i32.const 1) (i32.const 32))
  (if (i32.load8_u $memory (i32.const 32)) (then (unreachable)))
  (local.set $file (i32.load $memory (i32.const 36)))
  (loop $again
    (call $stream (local.get $file) (i64.const 0) (i32.const 32))
    (if (i32.load8_u $memory (i32.const 32)) (then (unreachable)))
    (local.set $stream (i32.load $memory (i32.const 36)))
    (loop $more
      (call $splice (local.get $stdout) (local.get $stream) (i64.const 1048576) (i32.const 64))
      ;; At the end of the file the stream is closed.
      (br_if $more (i32.eqz (i32.load8_u $memory (i32.const 64)))))
    (call $drop (local.get $stream))
    (local.set $copied (i32.add (local.get $copied) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $copied) (i32.const 400))))
  (global.get $returns))
