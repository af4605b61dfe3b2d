;; Looks up the address of a host, and traps if it gets an answer.
;;
;; imports: wasi:sockets/instance-network wasi:sockets/ip-name-lookup
;; returns: {"ok": {"result": {"data": "\"refused\""}}}
;; limit: powers
;; expects: succeeds
;; denied: sockets: the address of localhost

(import "wasi:sockets/instance-network@0.2.12" "instance-network" (func $network (result i32)))
(import "wasi:sockets/ip-name-lookup@0.2.12" "resolve-addresses"
  (func $resolve (param i32 i32 i32 i32)))
(data (memory $memory) (i32.const 64) "localhost")
(func $execute (param $call i32) (result i32)
  (call $resolve (call $network) (i32.const 64) (i32.const 9) (i32.const 16))
  (if (i32.eqz (i32.load8_u $memory (i32.const 16))) (then (unreachable)))
  (global.get $returns))
