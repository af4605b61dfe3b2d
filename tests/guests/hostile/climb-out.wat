;; Opens a file next to its granted directory with `..`, with a detour, and with an
;; absolute path; traps if one of them opens.
;;
;; imports: wasi:filesystem/types wasi:filesystem/preopens
;; powers: files
;; returns: {"ok": {"result": {"data": "\"refused\""}}}
;; limit: files
;; expects: succeeds
;; denied: files: open ../outside

(import "wasi:filesystem/preopens@0.2.12" "get-directories" (func $directories (param i32)))
(import "wasi:filesystem/types@0.2.12" "[method]descriptor.open-at"
  (func $open (param i32 i32 i32 i32 i32 i32 i32)))
(data (memory $memory) (i32.const 1024) "../outside")
(data (memory $memory) (i32.const 1088) "inside/../../outside")
(data (memory $memory) (i32.const 1152) "/etc/passwd")
(data (memory $memory) (i32.const 1216) "inside/../../../../../../../../etc/passwd")
(func $dir (result i32)
  (call $directories (i32.const 16))
  (i32.load $memory (i32.load $memory (i32.const 16))))
;; Opens a path for reading, following links, and traps if it can.
(func $try (param $path i32) (param $length i32)
  (call $open (call $dir) (i32.const 1) (local.get $path) (local.get $length)
    (i32.const 0) (i32.const 1) (i32.const 32))
  (if (i32.eqz (i32.load8_u $memory (i32.const 32))) (then (unreachable))))
(func $execute (param $call i32) (result i32)
  (call $try (i32.const 1024) (i32.const 10))
  (call $try (i32.const 1088) (i32.const 20))
  (call $try (i32.const 1152) (i32.const 11))
  (call $try (i32.const 1216) (i32.const 41))
  (global.get $returns))
