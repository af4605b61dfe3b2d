;; Returns 65,536 mutations whose keys and updates all alias the same 1 MiB: 128 GiB
;; for a host that copies them.
;;
;; limit: bytes across the boundary
;; expects: too_large

(func $execute (param $call i32) (result i32)
  (local $text i32) (local $list i32) (local $at i32)
  (local.set $text (call $realloc (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 1048576)))
  (memory.fill $memory (local.get $text) (i32.const 97) (i32.const 1048576))
  (local.set $list (call $realloc (i32.const 0) (i32.const 0) (i32.const 4) (i32.const 1048576)))
  (local.set $at (local.get $list))
  (loop $again
    (i32.store $memory offset=0 (local.get $at) (local.get $text))
    (i32.store $memory offset=4 (local.get $at) (i32.const 1048576))
    (local.set $at (i32.add (local.get $at) (i32.const 8)))
    (br_if $again (i32.lt_u (i32.sub (local.get $at) (local.get $list)) (i32.const 1048576))))
  (call $mutations (local.get $list) (i32.const 65536))
  (global.get $returns))
