;; Attaches an image with a media type of 12 million bytes again and again. The bytes count
;; as crossed, although the host stores none of them.
;;
;; world: include tollgate:tool/full-tool-component@0.1.0;
;; limit: bytes across the boundary
;; expects: too_large

(import "tollgate:tool/content@0.1.0" "attach"
  (func $attach (param i32 i32 i32 i32 i32 i32 i32 i32)))
(memory $memory 300)

(func $execute (param $call i32) (result i32) (local $left i32)
  (memory.fill $memory (i32.const 2000000) (i32.const 97) (i32.const 12000000))
  (local.set $left (i32.const 6))
  (loop $again
    (call $attach
      (i32.const 2000000) (i32.const 12000000) (i32.const 256) (i32.const 0)
      (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 512))
    (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
  (global.get $returns))
