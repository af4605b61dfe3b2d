;; Is a tool among the gates.
;;
;; world: include tollgate:tool/tool-component@0.1.0;
;; limit: exports
;; expects: refused "is a tool, not a gate"
