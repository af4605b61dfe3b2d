;; Sends 131,072 empty requests at once, without a grant: 6 MiB in its memory, and
;; hundreds of MiB in a host that prepares each of them before it refuses.
;;
;; world: include tollgate:tool/full-tool-component@0.1.0;
;; limit: host memory
;; expects: too_large

(import "tollgate:tool/http-client@0.1.0" "send" (func $send (param i32 i32 i32)))
(memory $memory 200)
(func $execute (param $call i32) (result i32) (local $bytes i32)
  ;; A request has 48 bytes, all of which are zero: no method, no URL, no header, no body.
  (call $send (i32.const 1048576) (i32.const 131072) (i32.const 16))
  (global.get $returns))
