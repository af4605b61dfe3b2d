;; Asks for an agent again and again, without a grant, so that its clock stops for each
;; of the refusals.
;;
;; world: include tollgate:tool/agent-tool-component@0.1.0;
;; limit: instructions
;; expects: out_of_fuel
;; denied: delegates: helper

(import "tollgate:tool/agents@0.1.0" "run-child"
  (func $run (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
(data (memory $memory) (i32.const 1024) "helper")
(func $execute (param $call i32) (result i32)
  (loop $again
    (call $run (i32.const 1024) (i32.const 6) (i32.const 0) (i32.const 0)
      (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 512))
    (if (i32.eqz (i32.load8_u $memory (i32.const 512))) (then (unreachable)))
    (br $again))
  (global.get $returns))
