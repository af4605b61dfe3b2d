;; Returns a list of tuples of tuples of one byte, 20 levels deep, each of which the engine keeps in a list of its
;; own.
;;
;; world: export take: interface {
;;   plain-tuples-of-one: func() -> list<tuple<tuple<tuple<tuple<tuple<tuple<tuple<tuple<tuple<tuple<tuple<tuple<tuple<tuple<tuple<tuple<tuple<tuple<tuple<tuple<u8>>>>>>>>>>>>>>>>>>>>>;
;;   }
;; limit: bytes across the boundary
;; expects: too_large

(module
  (memory (export "memory") 1020)
  (func (export "take#plain-tuples-of-one") (result i32)
    (memory.fill (i32.const 1024) (i32.const 1) (i32.const 66700000))
    (i32.store (i32.const 0) (i32.const 1024))
    (i32.store (i32.const 4) (i32.const 21363))
    (i32.const 0)))
