;; Grows a table until growing fails.
;;
;; limit: table elements
;; expects: out_of_resources

(table $table 1 funcref)
(func $execute (param $call i32) (result i32)
  (loop $again
    (br_if $again
      (i32.ne (table.grow $table (ref.null func) (i32.const 1000)) (i32.const -1))))
  (global.get $returns))
