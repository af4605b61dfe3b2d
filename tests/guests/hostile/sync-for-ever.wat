;; Has the host flush a file to the disk for ever, which disturbs everything that is
;; stored on the same disk, and costs it nothing itself.
;;
;; imports: wasi:filesystem/types wasi:filesystem/preopens
;; powers: files
;; limit: wall time
;; expects: timed_out

(import "wasi:filesystem/preopens@0.2.12" "get-directories" (func $directories (param i32)))
(import "wasi:filesystem/types@0.2.12" "[method]descriptor.open-at"
  (func $open (param i32 i32 i32 i32 i32 i32 i32)))
(import "wasi:filesystem/types@0.2.12" "[method]descriptor.sync" (func $sync (param i32 i32)))
(data (memory $memory) (i32.const 1024) "inside/large")
(func $dir (result i32)
  (call $directories (i32.const 16))
  (i32.load $memory (i32.load $memory (i32.const 16))))
(func $execute (param $call i32) (result i32) (local $file i32)
  (call $open (call $dir) (i32.const 0) (i32.const 1024) (i32.const 12) (i32.const 0) (i32.const 3) (i32.const 32))
  (if (i32.load8_u $memory (i32.const 32)) (then (unreachable)))
  (local.set $file (i32.load $memory (i32.const 36)))
  (loop $again
    (call $sync (local.get $file) (i32.const 64))
    (br $again))
  (unreachable))
