;; Makes one set of header fields 100,000 bytes large and copies it 3,000 times:
;; nothing crosses the boundary, and a host with generous limits stores 300 MB.
;;
;; imports: wasi:http/types
;; limit: header fields, 16 KiB
;; expects: trapped

(import "wasi:http/types@0.2.12" "[constructor]fields" (func $fields (result i32)))
(import "wasi:http/types@0.2.12" "[method]fields.append"
  (func $append (param i32 i32 i32 i32 i32 i32)))
(import "wasi:http/types@0.2.12" "[method]fields.clone" (func $clone (param i32) (result i32)))
(data (memory $memory) (i32.const 1024) "x-hoard")

(func $execute (param $call i32) (result i32) (local $fields i32) (local $left i32)
  (memory.fill $memory (i32.const 2048) (i32.const 97) (i32.const 1000))
  (local.set $fields (call $fields))
  (local.set $left (i32.const 100))
  (loop $fill
    (call $append (local.get $fields) (i32.const 1024) (i32.const 7)
      (i32.const 2048) (i32.const 1000) (i32.const 16))
    (br_if $fill (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
  (local.set $left (i32.const 3000))
  (loop $again
    (drop (call $clone (local.get $fields)))
    (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
  (global.get $returns))
