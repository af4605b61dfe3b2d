;; Counts to twenty million, which takes some 50 ms.
;;
;; expects: succeeds

(func $execute (param $call i32) (result i32)
  (local $left i32)
  (local.set $left (i32.const 20000000))
  (loop $again
    (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
  (global.get $returns))
