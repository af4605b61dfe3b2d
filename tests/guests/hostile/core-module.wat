;; Is a core module and not a component.
;;
;; form: module
;; limit: file
;; expects: refused "module"
