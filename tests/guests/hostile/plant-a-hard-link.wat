;; Creates a second name for a file of its directory, which would outlive changes to
;; the first, and traps if that succeeds.
;;
;; imports: wasi:filesystem/types wasi:filesystem/preopens
;; powers: files
;; returns: {"ok": {"result": {"data": "\"refused\""}}}
;; limit: files
;; expects: succeeds
;; denied: files: make the link planted

(import "wasi:filesystem/preopens@0.2.12" "get-directories" (func $directories (param i32)))
(import "wasi:filesystem/types@0.2.12" "[method]descriptor.link-at"
  (func $link (param i32 i32 i32 i32 i32 i32 i32 i32)))
(data (memory $memory) (i32.const 1024) "../outside")
(data (memory $memory) (i32.const 1088) "planted")
(data (memory $memory) (i32.const 1152) "outside")
(data (memory $memory) (i32.const 1216) "inside/file")
(func $dir (result i32)
  (call $directories (i32.const 16))
  (i32.load $memory (i32.load $memory (i32.const 16))))
(func $execute (param $call i32) (result i32) (local $dir i32)
  (local.set $dir (call $dir))
  (call $link (local.get $dir) (i32.const 0) (i32.const 1216) (i32.const 11)
    (local.get $dir) (i32.const 1088) (i32.const 7) (i32.const 32))
  (if (i32.eqz (i32.load8_u $memory (i32.const 32))) (then (unreachable)))
  (global.get $returns))
