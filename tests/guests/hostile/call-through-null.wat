;; Calls through an empty table entry.
;;
;; limit: traps
;; expects: trapped

(table $table 1 funcref)
(func $execute (param $call i32) (result i32)
  (call_indirect $table (param i32) (result i32) (local.get $call) (i32.const 0)))
