;; Appends one byte to the file that `{"p":"NAME"}` names, in its first directory;
;; without one it does nothing. The file's size says how often it ran.
;;
;; imports: wasi:filesystem/types wasi:filesystem/preopens wasi:io/streams
;; expects: succeeds

(import "wasi:filesystem/preopens@0.2.12" "get-directories" (func $directories (param i32)))
(import "wasi:filesystem/types@0.2.12" "[method]descriptor.open-at"
  (func $open (param i32 i32 i32 i32 i32 i32 i32)))
(import "wasi:filesystem/types@0.2.12" "[method]descriptor.append-via-stream"
  (func $append (param i32 i32)))
(import "wasi:io/streams@0.2.12" "[method]output-stream.blocking-write-and-flush"
  (func $write (param i32 i32 i32 i32)))
(func $execute (param $call i32) (result i32)
  (call $directories (i32.const 16))
  (if (i32.eqz (i32.load $memory (i32.const 20))) (then (return (global.get $returns))))
  ;; What is not opened, or not written, traps.
  (call $open
    (i32.load $memory (i32.load $memory (i32.const 16))) (i32.const 1)
    (i32.add (i32.load $memory (local.get $call)) (i32.const 6))
    (i32.sub (i32.load $memory offset=4 (local.get $call)) (i32.const 8))
    (i32.const 1) (i32.const 2) (i32.const 32))
  (if (i32.load8_u $memory (i32.const 32)) (then (unreachable)))
  (call $append (i32.load $memory (i32.const 36)) (i32.const 48))
  (if (i32.load8_u $memory (i32.const 48)) (then (unreachable)))
  (call $write
    (i32.load $memory (i32.const 52)) (i32.load $memory (local.get $call)) (i32.const 1) (i32.const 64))
  (if (i32.load8_u $memory (i32.const 64)) (then (unreachable)))
  (global.get $returns))
