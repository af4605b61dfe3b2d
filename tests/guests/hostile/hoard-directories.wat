;; Creates directories, which contain no bytes and still fill a disk, and traps if it
;; can create 1,000.
;;
;; imports: wasi:filesystem/types wasi:filesystem/preopens
;; powers: files
;; returns: {"ok": {"result": {"data": "\"refused\""}}}
;; limit: written bytes
;; expects: succeeds
;; denied: files: more bytes

(import "wasi:filesystem/preopens@0.2.12" "get-directories" (func $directories (param i32)))
(import "wasi:filesystem/types@0.2.12" "[method]descriptor.create-directory-at"
  (func $make (param i32 i32 i32 i32)))
(func $dir (result i32)
  (call $directories (i32.const 16))
  (i32.load $memory (i32.load $memory (i32.const 16))))
(func $execute (param $call i32) (result i32) (local $dir i32) (local $made i32)
  (local.set $dir (call $dir))
  (loop $again
    ;; Two letters for the name.
    (i32.store8 $memory (i32.const 1024)
      (i32.add (i32.const 65) (i32.rem_u (local.get $made) (i32.const 32))))
    (i32.store8 $memory (i32.const 1025)
      (i32.add (i32.const 65) (i32.div_u (local.get $made) (i32.const 32))))
    (call $make (local.get $dir) (i32.const 1024) (i32.const 2) (i32.const 32))
    (if (i32.load8_u $memory (i32.const 32)) (then (return (global.get $returns))))
    (local.set $made (i32.add (local.get $made) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $made) (i32.const 1000))))
  (unreachable))
