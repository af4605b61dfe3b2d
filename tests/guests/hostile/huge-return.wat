;; Returns 20 MiB of valid JSON: one string of the letter a.
;;
;; limit: bytes across the boundary
;; expects: too_large

(func $execute (param $call i32) (result i32) (local $text i32)
  (local.set $text (call $realloc (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 20971520)))
  (memory.fill $memory (local.get $text) (i32.const 97) (i32.const 20971520))
  (i32.store8 $memory (local.get $text) (i32.const 34))
  (i32.store8 $memory offset=20971519 (local.get $text) (i32.const 34))
  (call $data (local.get $text) (i32.const 20971520))
  (global.get $returns))
