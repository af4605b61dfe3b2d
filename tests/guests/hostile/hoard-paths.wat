;; Creates 4,000 requests that are never sent, each with a path of 60,000 bytes: little
;; in its own memory, but 240 MB in a host that stores them.
;;
;; imports: wasi:http/types
;; limit: bytes across the boundary
;; expects: too_large

(import "wasi:http/types@0.2.12" "[constructor]fields" (func $fields (result i32)))
(import "wasi:http/types@0.2.12" "[constructor]outgoing-request"
  (func $request (param i32) (result i32)))
(import "wasi:http/types@0.2.12" "[method]outgoing-request.set-path-with-query"
  (func $set_path (param i32 i32 i32 i32) (result i32)))

(func $execute (param $call i32) (result i32) (local $path i32) (local $left i32)
  (local.set $path (call $realloc (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 60000)))
  (memory.fill $memory (local.get $path) (i32.const 97) (i32.const 60000))
  (i32.store8 $memory (local.get $path) (i32.const 47))
  (local.set $left (i32.const 4000))
  (loop $again
    (drop (call $set_path (call $request (call $fields))
      (i32.const 1) (local.get $path) (i32.const 60000)))
    (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
  (global.get $returns))
