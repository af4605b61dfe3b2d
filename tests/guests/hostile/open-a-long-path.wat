;; Fills its memory, opens a path of 16 million bytes, and traps unless the path is refused
;; as too long. A host that accepted it would copy it several times.
;;
;; imports: wasi:filesystem/preopens wasi:filesystem/types
;; powers: files
;; limit: paths
;; expects: succeeds

(import "wasi:filesystem/preopens@0.2.12" "get-directories" (func $directories (param i32)))
(import "wasi:filesystem/types@0.2.12" "[method]descriptor.open-at"
  (func $open (param i32 i32 i32 i32 i32 i32 i32)))
(memory $memory 1000)

(func $execute (param $call i32) (result i32) (local $at i32)
  (memory.fill $memory (i32.const 2000000) (i32.const 47) (i32.const 63000000))
  (local.set $at (i32.const 2000000))
  (loop $next
    (i32.store8 $memory (local.get $at) (i32.const 97))
    (br_if $next
      (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 2))) (i32.const 18000000))))
  (call $directories (i32.const 256))
  (call $open
    (i32.load $memory (i32.load $memory (i32.const 256)))
    (i32.const 0) (i32.const 2000000) (i32.const 16000000) (i32.const 0) (i32.const 1) (i32.const 512))
  ;; The error code name-too-long.
  (if (i32.or
        (i32.ne (i32.load8_u $memory (i32.const 512)) (i32.const 1))
        (i32.ne (i32.load8_u $memory (i32.const 516)) (i32.const 18)))
    (then (unreachable)))
  (global.get $returns))
