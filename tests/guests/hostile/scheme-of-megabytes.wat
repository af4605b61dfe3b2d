;; Gives a request a scheme with a name of almost 16 MiB again and again.
;;
;; imports: wasi:http/types
;; limit: host memory
;; expects: out_of_memory

(import "wasi:http/types@0.2.12" "[constructor]fields" (func $fields (result i32)))
(import "wasi:http/types@0.2.12" "[constructor]outgoing-request"
  (func $request (param i32) (result i32)))
(import "wasi:http/types@0.2.12" "[method]outgoing-request.set-scheme"
  (func $set_scheme (param i32 i32 i32 i32 i32) (result i32)))
(memory $memory 260)
(func $execute (param $call i32) (result i32) (local $request i32)
  (local.set $request (call $request (call $fields)))
  (memory.fill $memory (i32.const 200000) (i32.const 97) (i32.const 16770000))
  (loop $again
    ;; Some scheme, and another one than HTTP and HTTPS.
    (drop (call $set_scheme (local.get $request) (i32.const 1) (i32.const 2)
      (i32.const 200000) (i32.const 16770000)))
    (br $again))
  (global.get $returns))
