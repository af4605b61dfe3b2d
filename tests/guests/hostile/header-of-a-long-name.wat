;; Looks for header fields with a name of almost 16 MiB again and again.
;;
;; imports: wasi:http/types
;; limit: bytes across the boundary
;; expects: too_large

(import "wasi:http/types@0.2.12" "[constructor]fields" (func $fields (result i32)))
(import "wasi:http/types@0.2.12" "[method]fields.has"
  (func $has (param i32 i32 i32) (result i32)))
(memory $memory 260)
(func $execute (param $call i32) (result i32) (local $fields i32)
  (local.set $fields (call $fields))
  (memory.fill $memory (i32.const 200000) (i32.const 97) (i32.const 16770000))
  (loop $again
    (drop (call $has (local.get $fields) (i32.const 200000) (i32.const 16770000)))
    (br $again))
  (global.get $returns))
