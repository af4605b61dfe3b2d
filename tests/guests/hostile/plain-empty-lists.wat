;; Returns a list of 600,000 empty lists from an ordinary function: no bytes at all, and
;; as many values in a host that creates them.
;;
;; world: export take: interface {
;;   lists: func() -> list<list<u8>>;
;;   }
;; limit: bytes across the boundary
;; expects: too_large

(module
  (memory (export "memory") 80)
  (func (export "take#lists") (result i32)
    (i32.store (i32.const 0) (i32.const 16))
    (i32.store (i32.const 4) (i32.const 600000))
    (i32.const 0)))
