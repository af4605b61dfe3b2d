;; Writes 16 MiB with terminal escapes to its standard output.
;;
;; imports: wasi:cli/stdout wasi:io/streams
;; limit: standard output and error
;; expects: succeeds

(import "wasi:cli/stdout@0.2.12" "get-stdout" (func $get_stdout (result i32)))
(import "wasi:io/streams@0.2.12" "[method]output-stream.blocking-write-and-flush"
  (func $write (param i32 i32 i32 i32)))
(data (memory $memory) (i32.const 16) "\1b[2J\1b]0;owned\07\1b[31m\e2\80\ae")
(func $execute (param $call i32) (result i32)
  (local $stdout i32) (local $left i32)
  (local.set $stdout (call $get_stdout))
  (local.set $left (i32.const 4096))
  (loop $again
    (call $write (local.get $stdout) (i32.const 16) (i32.const 4096) (i32.const 8192))
    (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
  (global.get $returns))
