;; Keeps 2,000 sets of header fields, and puts 100,000 bytes into each: 200 MB
;; in a host that counts handles alone.
;;
;; imports: wasi:http/types
;; limit: bytes across the boundary
;; expects: too_large

(import "wasi:http/types@0.2.12" "[constructor]fields" (func $fields (result i32)))
(import "wasi:http/types@0.2.12" "[method]fields.append"
  (func $append (param i32 i32 i32 i32 i32 i32)))
(data (memory $memory) (i32.const 1024) "x-hoard")

(func $execute (param $call i32) (result i32) (local $value i32) (local $left i32)
  (local.set $value (call $realloc (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 100000)))
  (memory.fill $memory (local.get $value) (i32.const 97) (i32.const 100000))
  (local.set $left (i32.const 2000))
  (loop $again
    (call $append (call $fields) (i32.const 1024) (i32.const 7)
      (local.get $value) (i32.const 100000) (i32.const 16))
    (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
  (global.get $returns))
