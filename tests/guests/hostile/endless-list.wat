;; Returns three million empty mutations: little in its memory, but much in a host that
;; creates objects for them.
;;
;; limit: bytes across the boundary
;; expects: too_large

(func $execute (param $call i32) (result i32)
  (call $mutations
    (call $realloc (i32.const 0) (i32.const 0) (i32.const 4) (i32.const 48000000))
    (i32.const 3000000))
  (global.get $returns))
