;; Reads a setting with a name of almost 16 MiB again and again.
;;
;; world: include tollgate:tool/full-tool-component@0.1.0;
;; limit: bytes across the boundary
;; expects: too_large

(import "tollgate:tool/settings@0.1.0" "get" (func $get (param i32 i32 i32)))
(memory $memory 260)
(func $execute (param $call i32) (result i32)
  (memory.fill $memory (i32.const 200000) (i32.const 97) (i32.const 16770000))
  (loop $again
    (call $get (i32.const 200000) (i32.const 16770000) (i32.const 512))
    (br $again))
  (global.get $returns))
