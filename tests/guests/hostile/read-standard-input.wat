;; Reads the host's standard input, and traps if there is any.
;;
;; imports: wasi:cli/stdin wasi:io/streams
;; returns: {"ok": {"result": {"data": "\"refused\""}}}
;; limit: powers
;; expects: succeeds

(import "wasi:cli/stdin@0.2.12" "get-stdin" (func $get_stdin (result i32)))
(import "wasi:io/streams@0.2.12" "[method]input-stream.blocking-read"
  (func $read (param i32 i64 i32)))
(func $execute (param $call i32) (result i32)
  (call $read (call $get_stdin) (i64.const 100) (i32.const 16))
  (if (i32.eqz (i32.load8_u $memory (i32.const 16))) (then (unreachable)))
  (global.get $returns))
