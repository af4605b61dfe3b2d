;; Returns an object with 450,000 different keys.
;;
;; limit: JSON nodes
;; expects: succeeds

(func $execute (param $call i32) (result i32) (local $text i32) (local $at i32) (local $left i32)
  (local.set $text (call $realloc (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 4950016)))
  (local.set $at (local.get $text))
  (i32.store8 $memory (local.get $at) (i32.const 123))
  (loop $again
    ;; "ABCDEF":0, where each letter is a digit of base 16, from A.
    (i32.store8 $memory offset=1 (local.get $at) (i32.const 34))
    (call $letters (i32.add (local.get $at) (i32.const 2)) (local.get $left))
    (i32.store $memory offset=8 (local.get $at) (i32.const 741358114))
    (local.set $at (i32.add (local.get $at) (i32.const 11)))
    (br_if $again
      (i32.lt_u (local.tee $left (i32.add (local.get $left) (i32.const 1))) (i32.const 450000))))
  (i32.store8 $memory (local.get $at) (i32.const 125))
  (call $data (local.get $text) (i32.add (i32.sub (local.get $at) (local.get $text)) (i32.const 1)))
  (global.get $returns))

(func $letters (param $at i32) (param $number i32) (local $left i32)
  (local.set $left (i32.const 6))
  (loop $again
    (i32.store8 $memory (local.get $at)
      (i32.add (i32.const 65) (i32.and (local.get $number) (i32.const 15))))
    (local.set $number (i32.shr_u (local.get $number) (i32.const 4)))
    (local.set $at (i32.add (local.get $at) (i32.const 1)))
    (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1))))))
