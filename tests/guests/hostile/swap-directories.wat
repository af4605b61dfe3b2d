;; Repeatedly replaces a directory with a link that leads out, while it opens a file
;; through it; traps if it ever reads the outside file.
;;
;; imports: wasi:filesystem/types wasi:filesystem/preopens
;; powers: files
;; returns: {"ok": {"result": {"data": "\"refused\""}}}
;; limit: files
;; expects: succeeds

(import "wasi:filesystem/preopens@0.2.12" "get-directories" (func $directories (param i32)))
(import "wasi:filesystem/types@0.2.12" "[method]descriptor.open-at"
  (func $open (param i32 i32 i32 i32 i32 i32 i32)))
(import "wasi:filesystem/types@0.2.12" "[method]descriptor.rename-at"
  (func $rename (param i32 i32 i32 i32 i32 i32 i32)))
(data (memory $memory) (i32.const 1024) "nested")
(data (memory $memory) (i32.const 1088) "up")
(data (memory $memory) (i32.const 1152) "aside")
(data (memory $memory) (i32.const 1216) "nested/outside")
(func $dir (result i32)
  (call $directories (i32.const 16))
  (i32.load $memory (i32.load $memory (i32.const 16))))
;; Opens a path for reading, following links, and traps if it can.
(func $try (param $path i32) (param $length i32)
  (call $open (call $dir) (i32.const 1) (local.get $path) (local.get $length)
    (i32.const 0) (i32.const 1) (i32.const 32))
  (if (i32.eqz (i32.load8_u $memory (i32.const 32))) (then (unreachable))))
(func $move (param $from i32) (param $from_length i32) (param $to i32) (param $to_length i32)
  (local $dir i32)
  (local.set $dir (call $dir))
  (call $rename (local.get $dir) (local.get $from) (local.get $from_length)
    (local.get $dir) (local.get $to) (local.get $to_length) (i32.const 48)))
(func $execute (param $call i32) (result i32) (local $left i32)
  (local.set $left (i32.const 50))
  (loop $again
    (call $try (i32.const 1216) (i32.const 14))
    (call $move (i32.const 1024) (i32.const 6) (i32.const 1152) (i32.const 5))
    (call $move (i32.const 1088) (i32.const 2) (i32.const 1024) (i32.const 6))
    (call $try (i32.const 1216) (i32.const 14))
    (call $move (i32.const 1024) (i32.const 6) (i32.const 1088) (i32.const 2))
    (call $move (i32.const 1152) (i32.const 5) (i32.const 1024) (i32.const 6))
    (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
  (global.get $returns))
