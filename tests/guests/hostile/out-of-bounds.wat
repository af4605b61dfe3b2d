;; Reads past the end of its memory.
;;
;; limit: traps
;; expects: trapped

(func $execute (param $call i32) (result i32)
  (i32.load $memory offset=0xfffffff0 (global.get $returns)))
