;; Calls itself until the stack is exhausted.
;;
;; limit: stack
;; expects: stack_overflow

(func $deeper (param $depth i64) (result i64)
  (i64.add (local.get $depth)
    (call $deeper (i64.add (local.get $depth) (i64.const 1)))))
(func $execute (param $call i32) (result i32)
  (drop (call $deeper (i64.const 0)))
  (global.get $returns))
