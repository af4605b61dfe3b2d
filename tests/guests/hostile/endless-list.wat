;; Returns three million mutations that are all empty: little in its memory,
;; much in that of a host which makes objects of them.
;;
;; limit: bytes across the boundary
;; expects: too_large

(func $execute (param $call i32) (result i32)
  (call $mutations
    (call $realloc (i32.const 0) (i32.const 0) (i32.const 4) (i32.const 48000000))
    (i32.const 3000000))
  (global.get $returns))
