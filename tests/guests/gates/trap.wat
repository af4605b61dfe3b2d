;; Traps, in the hope that what cannot be judged may run.
;;
;; kind: gate
;; limit: a failure denies
;; expects: trapped

(func $judge (param $call i32) (result i32) (unreachable))
