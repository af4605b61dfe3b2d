;; Returns 150,000 sets of 32 flags from an ordinary function: four bytes per set in
;; the guest, and 32 strings in a host that creates objects.
;;
;; world: export take: interface {
;;   flags all { a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z, aa, ab, ac, ad, ae, af }
;;   sets: func() -> list<all>;
;;   }
;; limit: bytes across the boundary
;; expects: too_large

(module
  (memory (export "memory") 11)
  (func (export "take#sets") (result i32)
    (memory.fill (i32.const 16) (i32.const 255) (i32.const 600000))
    (i32.store (i32.const 0) (i32.const 16))
    (i32.store (i32.const 4) (i32.const 150000))
    (i32.const 0)))
