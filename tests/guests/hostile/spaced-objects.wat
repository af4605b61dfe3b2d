;; Returns 249,000 one-member objects with spaces that the host would not write.
;;
;; limit: JSON nodes
;; expects: succeeds

;; Fills $length bytes from $at with the first $unit of them, again and again.
(func $fill (param $at i32) (param $unit i32) (param $length i32) (local $next i32)
  (loop $again
    (local.set $next (i32.sub (local.get $length) (local.get $unit)))
    (if (i32.gt_u (local.get $next) (local.get $unit)) (then (local.set $next (local.get $unit))))
    (memory.copy $memory $memory (i32.add (local.get $at) (local.get $unit)) (local.get $at) (local.get $next))
    (local.set $unit (i32.add (local.get $unit) (local.get $next)))
    (br_if $again (i32.lt_u (local.get $unit) (local.get $length)))))

(func $execute (param $call i32) (result i32) (local $text i32)
  (local.set $text (call $realloc (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 1992017)))
  (i32.store8 $memory (local.get $text) (i32.const 91))
  ;; {"":0 },
  (i64.store $memory offset=1 (local.get $text) (i64.const 3205753901263495803))
  (call $fill (i32.add (local.get $text) (i32.const 1)) (i32.const 8) (i32.const 1992000))
  (i32.store8 $memory offset=1992000 (local.get $text) (i32.const 93))
  (call $data (local.get $text) (i32.const 1992001))
  (global.get $returns))
