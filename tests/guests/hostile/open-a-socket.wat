;; Creates a TCP and a UDP socket, and traps if it gets one.
;;
;; imports: wasi:sockets/tcp-create-socket wasi:sockets/udp-create-socket
;; returns: {"ok": {"result": {"data": "\"refused\""}}}
;; limit: powers
;; expects: succeeds
;; denied: sockets: a TCP socket

(import "wasi:sockets/tcp-create-socket@0.2.12" "create-tcp-socket" (func $tcp (param i32 i32)))
(import "wasi:sockets/udp-create-socket@0.2.12" "create-udp-socket" (func $udp (param i32 i32)))
(func $execute (param $call i32) (result i32)
  (call $tcp (i32.const 0) (i32.const 16))
  (call $udp (i32.const 1) (i32.const 32))
  (if (i32.eqz (i32.and (i32.load8_u $memory (i32.const 16)) (i32.load8_u $memory (i32.const 32))))
    (then (unreachable)))
  (global.get $returns))
