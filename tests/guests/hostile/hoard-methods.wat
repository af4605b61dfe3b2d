;; Creates 1,000 requests that are never sent, each with a valid method name of 1 MiB.
;;
;; imports: wasi:http/types
;; limit: bytes across the boundary
;; expects: too_large

(import "wasi:http/types@0.2.12" "[constructor]fields" (func $fields (result i32)))
(import "wasi:http/types@0.2.12" "[constructor]outgoing-request"
  (func $request (param i32) (result i32)))
(import "wasi:http/types@0.2.12" "[method]outgoing-request.set-method"
  (func $set_method (param i32 i32 i32 i32) (result i32)))

(func $execute (param $call i32) (result i32) (local $name i32) (local $left i32)
  (local.set $name (call $realloc (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 1048576)))
  (memory.fill $memory (local.get $name) (i32.const 65) (i32.const 1048576))
  (local.set $left (i32.const 1000))
  (loop $again
    (if (call $set_method (call $request (call $fields))
          (i32.const 9) (local.get $name) (i32.const 1048576))
      (then (unreachable)))
    (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
  (global.get $returns))
