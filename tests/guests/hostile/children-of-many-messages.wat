;; Asks for an agent a hundred times, without a grant, each time with 300,000 empty
;; messages. They take 4 MiB of its memory, which is full, and fifty more in a
;; host that converts them before it refuses.
;;
;; world: include tollgate:tool/agent-tool-component@0.1.0;
;; limit: powers
;; expects: succeeds
;; denied: delegates: helper

(import "tollgate:tool/agents@0.1.0" "run-child"
  (func $run (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
(memory $memory 1000)
(data (memory $memory) (i32.const 1024) "helper")
(func $execute (param $call i32) (result i32) (local $at i32) (local $left i32)
  (memory.fill $memory (i32.const 7000000) (i32.const 1) (i32.const 58000000))
  ;; A message has 12 bytes: its role, which is the assistant's, and an empty text.
  (local.set $at (i32.const 1048576))
  (loop $next
    (i32.store8 $memory (local.get $at) (i32.const 1))
    (br_if $next
      (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 12))) (i32.const 4648576))))
  (local.set $left (i32.const 100))
  (loop $again
    (call $run (i32.const 1024) (i32.const 6) (i32.const 1048576) (i32.const 300000)
      (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 512))
    (if (i32.eqz (i32.load8_u $memory (i32.const 512))) (then (unreachable)))
    (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
  (global.get $returns))
