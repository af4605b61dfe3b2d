;; Fills its memory and creates 1,000 requests that it never sends, each with a path of
;; 60,000 bytes. Together they stay within `crossing_bytes`, but a host that did not charge
;; them would hold almost as much again as the guest's memory.
;;
;; imports: wasi:http/types
;; limit: host memory
;; expects: out_of_memory

(import "wasi:http/types@0.2.12" "[constructor]fields" (func $fields (result i32)))
(import "wasi:http/types@0.2.12" "[constructor]outgoing-request"
  (func $request (param i32) (result i32)))
(import "wasi:http/types@0.2.12" "[method]outgoing-request.set-path-with-query"
  (func $set_path (param i32 i32 i32 i32) (result i32)))
(memory $memory 1000)

(func $execute (param $call i32) (result i32) (local $left i32)
  (memory.fill $memory (i32.const 2000000) (i32.const 97) (i32.const 63000000))
  (i32.store8 $memory (i32.const 2000000) (i32.const 47))
  (local.set $left (i32.const 1000))
  (loop $again
    (drop (call $set_path (call $request (call $fields))
      (i32.const 1) (i32.const 2000000) (i32.const 60000)))
    (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
  (global.get $returns))
