;; Makes 4,000 copies of a set of header fields, which a host shares at first, and
;; changes each copy so that the host has to store it: 16 KiB each, none of which
;; crossed the boundary.
;;
;; imports: wasi:http/types
;; limit: bytes across the boundary
;; expects: too_large

(import "wasi:http/types@0.2.12" "[constructor]fields" (func $fields (result i32)))
(import "wasi:http/types@0.2.12" "[method]fields.append"
  (func $append (param i32 i32 i32 i32 i32 i32)))
(import "wasi:http/types@0.2.12" "[method]fields.clone" (func $clone (param i32) (result i32)))
(data (memory $memory) (i32.const 1024) "x-copy")

(func $add (param $fields i32)
  (call $append (local.get $fields) (i32.const 1024) (i32.const 6)
    (i32.const 1024) (i32.const 1) (i32.const 16)))
(func $execute (param $call i32) (result i32) (local $fields i32) (local $left i32)
  (local.set $fields (call $fields))
  (local.set $left (i32.const 300))
  (loop $fill
    (call $add (local.get $fields))
    (br_if $fill (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
  (local.set $left (i32.const 4000))
  (loop $again
    (call $add (call $clone (local.get $fields)))
    (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
  (global.get $returns))
