;; Returns 200,000 cases of an enumeration whose only case has a name of 199 characters:
;; one byte each in its memory, and 40 MB of text in a host that names each of them.
;;
;; world: export take: interface {
;;   enum one {
;;   aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
;;   }
;;   names: func() -> list<one>;
;;   }
;; limit: bytes across the boundary
;; expects: too_large

(module
  (memory (export "memory") 16)
  (func (export "take#names") (result i32)
    (i32.store (i32.const 0) (i32.const 16))
    (i32.store (i32.const 4) (i32.const 200000))
    (i32.const 0)))
