;; Computes forever in the cleanup function after it has returned a result.
;;
;; limit: instructions
;; expects: out_of_fuel

(func (export "cabi_post_tollgate:tool/tool@0.1.0#execute") (param $result i32)
  (loop $again (br $again)))
