;; Is a core module, not a component.
;;
;; form: module
;; limit: file
;; expects: refused "module"
