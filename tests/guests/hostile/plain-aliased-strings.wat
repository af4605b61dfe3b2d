;; Returns a list of 65,536 strings from an ordinary function that all alias the same 1
;; MiB: 64 GiB for a host that copies them.
;;
;; world: export strings: func() -> list<string>;
;; limit: bytes across the boundary
;; expects: too_large

(module
  (memory (export "memory") 32)
  (func (export "strings") (result i32) (local $at i32)
    (memory.fill (i32.const 1048576) (i32.const 97) (i32.const 1048576))
    (local.set $at (i32.const 65536))
    (loop $again
      (i32.store offset=0 (local.get $at) (i32.const 1048576))
      (i32.store offset=4 (local.get $at) (i32.const 1048576))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (br_if $again (i32.lt_u (local.get $at) (i32.const 589824))))
    (i32.store (i32.const 0) (i32.const 65536))
    (i32.store (i32.const 4) (i32.const 65536))
    (i32.const 0)))
