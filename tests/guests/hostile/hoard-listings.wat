;; Starts 400 listings of its granted directory, reads one name from each, and
;; drops none: a host that reads whole directories stores them all.
;;
;; imports: wasi:filesystem/types wasi:filesystem/preopens
;; powers: files
;; limit: listings
;; expects: out_of_resources

(import "wasi:filesystem/preopens@0.2.12" "get-directories" (func $directories (param i32)))
(import "wasi:filesystem/types@0.2.12" "[method]descriptor.read-directory" (func $list (param i32 i32)))
(import "wasi:filesystem/types@0.2.12" "[method]directory-entry-stream.read-directory-entry"
  (func $next (param i32 i32)))
(func $dir (result i32)
  (call $directories (i32.const 16))
  (i32.load $memory (i32.load $memory (i32.const 16))))
(func $execute (param $call i32) (result i32) (local $dir i32) (local $opened i32)
  (local.set $dir (call $dir))
  (loop $again
    (call $list (local.get $dir) (i32.const 32))
    (if (i32.load8_u $memory (i32.const 32)) (then (unreachable)))
    (call $next (i32.load $memory (i32.const 36)) (i32.const 64))
    (local.set $opened (i32.add (local.get $opened) (i32.const 1)))
    (br_if $again (i32.lt_u (local.get $opened) (i32.const 400))))
  (global.get $returns))
