;; Exports a function that returns a resource for the host to keep.
;;
;; world: export take: interface {
;;   resource thing;
;;   get: func() -> thing;
;;   }
;; limit: exports
;; expects: refused "resource"

(module
  (import "[export]take" "[resource-new]thing" (func $new (param i32) (result i32)))
  (func (export "take#get") (result i32) (call $new (i32.const 7))))
