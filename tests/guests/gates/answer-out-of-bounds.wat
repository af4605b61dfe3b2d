;; Answers with an address that is not there.
;;
;; kind: gate
;; limit: an answer is read with care
;; expects: malformed_output

(func $judge (param $call i32) (result i32) (i32.const 0x7ffffff0))
