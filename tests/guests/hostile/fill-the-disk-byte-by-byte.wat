;; Writes single bytes into separate blocks, and traps if 1,024 bytes can fill 4 MiB of
;; the disk.
;;
;; imports: wasi:filesystem/types wasi:filesystem/preopens
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
(data (memory $memory) (i32.const 1024) "sparse")
(func $dir (result i32)
  (call $directories (i32.const 16))
  (i32.load $memory (i32.load $memory (i32.const 16))))
(func $execute (param $call i32) (result i32) (local $file i32) (local $at i64)
  (call $open (call $dir) (i32.const 0) (i32.const 1024) (i32.const 6) (i32.const 1) (i32.const 2) (i32.const 32))
  (if (i32.load8_u $memory (i32.const 32)) (then (return (global.get $returns))))
  (local.set $file (i32.load $memory (i32.const 36)))
  (loop $again
    (call $write (local.get $file) (i32.const 0) (i32.const 1) (local.get $at) (i32.const 32))
    (if (i32.load8_u $memory (i32.const 32)) (then (return (global.get $returns))))
    (local.set $at (i64.add (local.get $at) (i64.const 4096)))
    (br_if $again (i64.lt_u (local.get $at) (i64.const 4194304))))
  (unreachable))
