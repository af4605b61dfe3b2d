;; Is a component, but no tool: it exports another interface.
;;
;; world: export evil:power/take;
;; wit: package evil:power { interface take { everything: func(); } }
;; limit: exports
;; expects: refused "tollgate:tool/tool"

(module (func (export "evil:power/take#everything")))
