;; Looks up the address of a name of almost 16 MiB again and again.
;;
;; imports: wasi:sockets/instance-network wasi:sockets/ip-name-lookup
;; limit: bytes across the boundary
;; expects: too_large
;; denied: sockets: the address of aaaa

(import "wasi:sockets/instance-network@0.2.12" "instance-network" (func $network (result i32)))
(import "wasi:sockets/ip-name-lookup@0.2.12" "resolve-addresses"
  (func $resolve (param i32 i32 i32 i32)))
(memory $memory 260)
(func $execute (param $call i32) (result i32) (local $network i32)
  (local.set $network (call $network))
  (memory.fill $memory (i32.const 200000) (i32.const 97) (i32.const 16770000))
  (loop $again
    (call $resolve (local.get $network) (i32.const 200000) (i32.const 16770000) (i32.const 512))
    (br $again))
  (global.get $returns))
