;; Traps at once.
;;
;; limit: traps
;; expects: trapped

(func $execute (param $call i32) (result i32)
  (unreachable))
