;; Sends a request with 200,000 headers, with its memory full. In the guest a header is
;; sixteen bytes, which point to the same letter; in the host it is two strings.
;;
;; world: include tollgate:tool/full-tool-component@0.1.0;
;; limit: HTTP
;; expects: succeeds

(import "tollgate:tool/http-client@0.1.0" "send" (func $send (param i32 i32 i32)))
(memory $memory 1000)
(func $execute (param $call i32) (result i32) (local $at i32)
  (memory.fill $memory (i32.const 7000000) (i32.const 1) (i32.const 58000000))
  (i32.store8 $memory (i32.const 1024) (i32.const 97))
  ;; A header has 16 bytes: its name and its value, which are the same letter.
  (local.set $at (i32.const 2000000))
  (loop $next
    (i32.store $memory (local.get $at) (i32.const 1024))
    (i32.store $memory offset=4 (local.get $at) (i32.const 1))
    (i32.store $memory offset=8 (local.get $at) (i32.const 1024))
    (i32.store $memory offset=12 (local.get $at) (i32.const 1))
    (br_if $next
      (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 16))) (i32.const 5200000))))
  ;; A request has 48 bytes: no method, no URL, these headers, no body.
  (memory.fill $memory (i32.const 1100) (i32.const 0) (i32.const 48))
  (i32.store $memory (i32.const 1116) (i32.const 2000000))
  (i32.store $memory (i32.const 1120) (i32.const 200000))
  (call $send (i32.const 1100) (i32.const 1) (i32.const 512))
  (global.get $returns))
