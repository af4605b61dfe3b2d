;; Opens a granted file 400 times, keeps a stream each time and drops the file: a host
;; that only counts file handles has all of them open.
;;
;; imports: wasi:filesystem/types wasi:filesystem/preopens wasi:io/streams
;; powers: files
;; limit: open files
;; expects: out_of_resources

(import "wasi:filesystem/preopens@0.2.12" "get-directories" (func $directories (param i32)))
(import "wasi:filesystem/types@0.2.12" "[method]descriptor.open-at"
  (func $open (param i32 i32 i32 i32 i32 i32 i32)))
(import "wasi:filesystem/types@0.2.12" "[method]descriptor.read-via-stream"
  (func $stream (param i32 i64 i32)))
(import "wasi:filesystem/types@0.2.12" "[resource-drop]descriptor" (func $drop (param i32)))
(data (memory $memory) (i32.const 1024) "inside/file")
(func $dir (result i32)
  (call $directories (i32.const 16))
  (i32.load $memory (i32.load $memory (i32.const 16))))
(func $execute (param $call i32) (result i32) (local $dir i32) (local $file i32) (local $opened i32)
  (local.set $dir (call $dir))
  (loop $again
    (call $open (local.get $dir) (i32.const 0) (i32.const 1024) (i32.const 11) (i32.const 0) (i32.const 1)
      (i32.const 32))
    ;; Another guest may be moving it about.
    (br_if $again (i32.load8_u $memory (i32.const 32)))
    (local.set $file (i32.load $memory (i32.const 36)))
    (call $stream (local.get $file) (i64.const 0) (i32.const 48))
    (if (i32.load8_u $memory (i32.const 48)) (then (unreachable)))
    (call $drop (local.get $file))
    (local.set $opened (i32.add (local.get $opened) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $opened) (i32.const 400))))
  (global.get $returns))
