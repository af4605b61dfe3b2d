;; Takes a value whose type is a twelve-fold nesting of pairs: one line each in WIT,
;; and 4,096 parts for a host that expands it.
;;
;; world: export take: interface {
;;   type t0 = u8; type t1 = tuple<t0, t0>; type t2 = tuple<t1, t1>; type t3 = tuple<t2, t2>; type t4 = tuple<t3, t3>; type t5 = tuple<t4, t4>; type t6 = tuple<t5, t5>; type t7 = tuple<t6, t6>; type t8 = tuple<t7, t7>; type t9 = tuple<t8, t8>; type t10 = tuple<t9, t9>; type t11 = tuple<t10, t10>; type t12 = tuple<t11, t11>;
;;   bomb: func(all: t12);
;;   }
;; limit: schemas
;; expects: refused "parts"

(module
  (memory (export "memory") 1)
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
  (func (export "take#bomb") (param i32)))
