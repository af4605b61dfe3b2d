;; Returns 14,000 records of 26 fields from an ordinary function, with its memory full. In
;; the guest a field is a byte; in the host it is a value with its name.
;;
;; world: export take: interface {
;;   record one { fa: bool, fb: bool, fc: bool, fd: bool, fe: bool, ff: bool, fg: bool, fh: bool, fi: bool, fj: bool, fk: bool, fl: bool, fm: bool, fn: bool, fo: bool, fp: bool, fq: bool, fr: bool, fs: bool, ft: bool, fu: bool, fv: bool, fw: bool, fx: bool, fy: bool, fz: bool }
;;   records: func() -> list<one>;
;;   }
;; limit: bytes across the boundary
;; expects: too_large

(module
  (memory (export "memory") 1020)
  (func (export "take#records") (result i32)
    (memory.fill (i32.const 1024) (i32.const 1) (i32.const 66700000))
    (i32.store (i32.const 0) (i32.const 1024))
    (i32.store (i32.const 4) (i32.const 14000))
    (i32.const 0)))
