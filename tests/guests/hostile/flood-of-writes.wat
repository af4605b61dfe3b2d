;; Writes 16 MiB at once to each of 100 file streams without asking for their capacity:
;; the pending data would occupy the host's memory.
;;
;; imports: wasi:filesystem/types wasi:filesystem/preopens wasi:io/streams
;; powers: files
;; limit: written bytes
;; expects: trapped

(import "wasi:filesystem/preopens@0.2.12" "get-directories" (func $directories (param i32)))
(import "wasi:filesystem/types@0.2.12" "[method]descriptor.open-at"
  (func $open (param i32 i32 i32 i32 i32 i32 i32)))
(import "wasi:filesystem/types@0.2.12" "[method]descriptor.append-via-stream" (func $stream (param i32 i32)))
(import "wasi:io/streams@0.2.12" "[method]output-stream.write" (func $write (param i32 i32 i32 i32)))
(data (memory $memory) (i32.const 1024) "inside/file")
(memory $memory 257)
(func $dir (result i32)
  (call $directories (i32.const 16))
  (i32.load $memory (i32.load $memory (i32.const 16))))
(func $execute (param $call i32) (result i32) (local $file i32) (local $streams i32)
  (call $open (call $dir) (i32.const 0) (i32.const 1024) (i32.const 11) (i32.const 0) (i32.const 2) (i32.const 32))
  (if (i32.load8_u $memory (i32.const 32)) (then (return (global.get $returns))))
  (local.set $file (i32.load $memory (i32.const 36)))
  (loop $again
    (call $stream (local.get $file) (i32.const 32))
    (if (i32.load8_u $memory (i32.const 32)) (then (return (global.get $returns))))
    (call $write (i32.load $memory (i32.const 36)) (i32.const 0) (i32.const 16000000) (i32.const 64))
    (local.set $streams (i32.add (local.get $streams) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $streams) (i32.const 100))))
  (global.get $returns))
