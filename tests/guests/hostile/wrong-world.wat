;; Is a component of another world, without any export that can be called.
;;
;; world: export evil:power/take;
;; wit: package evil:power { interface take { type power = u32; } }
;; limit: exports
;; expects: refused "tollgate:tool/tool"

(module)
