;; Reads the environment, arguments, working directory and open directories, and traps
;; if there are any.
;;
;; imports: wasi:cli/environment wasi:filesystem/preopens
;; returns: {"ok": {"result": {"data": "\"refused\""}}}
;; limit: powers
;; expects: succeeds

(import "wasi:cli/environment@0.2.12" "get-environment" (func $environment (param i32)))
(import "wasi:cli/environment@0.2.12" "get-arguments" (func $arguments (param i32)))
(import "wasi:cli/environment@0.2.12" "initial-cwd" (func $folder (param i32)))
(import "wasi:filesystem/preopens@0.2.12" "get-directories" (func $directories (param i32)))
(func $execute (param $call i32) (result i32)
  (call $environment (i32.const 16))
  (call $arguments (i32.const 32))
  (call $directories (i32.const 48))
  (call $folder (i32.const 64))
  (if (i32.or (i32.or (i32.load $memory (i32.const 20)) (i32.load $memory (i32.const 36)))
              (i32.or (i32.load $memory (i32.const 52)) (i32.load8_u $memory (i32.const 64))))
    (then (unreachable)))
  (global.get $returns))
