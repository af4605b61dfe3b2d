;; Answers with its arguments, as they were sent.
;;
;; expects: succeeds

(func $execute (param $call i32) (result i32)
  (call $data (i32.load $memory (local.get $call)) (i32.load $memory offset=4 (local.get $call)))
  (global.get $returns))
