;; Reads the same 64 KiB of a file 2,000 times, 125 MiB in total.
;;
;; imports: wasi:filesystem/types wasi:filesystem/preopens
;; powers: files
;; limit: bytes across the boundary
;; expects: too_large

(import "wasi:filesystem/preopens@0.2.12" "get-directories" (func $directories (param i32)))
(import "wasi:filesystem/types@0.2.12" "[method]descriptor.open-at"
  (func $open (param i32 i32 i32 i32 i32 i32 i32)))
(import "wasi:filesystem/types@0.2.12" "[method]descriptor.read" (func $read (param i32 i64 i64 i32)))
(data (memory $memory) (i32.const 1024) "inside/large")
(func $dir (result i32)
  (call $directories (i32.const 16))
  (i32.load $memory (i32.load $memory (i32.const 16))))
;; What is read is put in the same place each time.
(global $small (mut i32) (i32.const 196608))
(func $realloc (param $old i32) (param $old_size i32) (param $align i32) (param $size i32) (result i32)
  (if (i32.ge_u (local.get $size) (i32.const 4096)) (then (return (i32.const 262144))))
  (global.set $small (i32.add (global.get $small) (i32.const 4096)))
  (global.get $small))
(memory $memory 6)
(func $execute (param $call i32) (result i32) (local $file i32) (local $read i32)
  (call $open (call $dir) (i32.const 0) (i32.const 1024) (i32.const 12) (i32.const 0) (i32.const 1) (i32.const 32))
  (if (i32.load8_u $memory (i32.const 32)) (then (unreachable)))
  (local.set $file (i32.load $memory (i32.const 36)))
  (loop $again
    (call $read (local.get $file) (i64.const 65536) (i64.const 0) (i32.const 32))
    (if (i32.load8_u $memory (i32.const 32)) (then (unreachable)))
    (local.set $read (i32.add (local.get $read) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $read) (i32.const 2000))))
  (global.get $returns))
