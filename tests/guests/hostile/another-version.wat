;; Implements a version of the contract that does not exist.
;;
;; world: export tollgate:tool/tool@0.9.0;
;; wit: package tollgate:tool@0.9.0 { interface tool { describe: func(); } }
;; limit: exports
;; expects: refused "0.9.0"

(module (func (export "tollgate:tool/tool@0.9.0#describe")))
