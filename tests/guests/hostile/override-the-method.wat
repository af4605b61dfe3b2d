;; Sends header fields in four spellings that make servers treat its GET as a DELETE,
;; and traps if the host accepts one of them.
;;
;; imports: wasi:http/types
;; powers: http
;; returns: {"ok": {"result": {"data": "\"refused\""}}}
;; limit: HTTP
;; expects: succeeds

(import "wasi:http/types@0.2.12" "[constructor]fields" (func $fields (result i32)))
(import "wasi:http/types@0.2.12" "[method]fields.append"
  (func $append (param i32 i32 i32 i32 i32 i32)))
(data (memory $memory) (i32.const 1024) "X-HTTP-Method-Override")
(data (memory $memory) (i32.const 1100) "x-http-method")
(data (memory $memory) (i32.const 1200) "x-method-override")
(data (memory $memory) (i32.const 1300) "x_http_method_override")
(data (memory $memory) (i32.const 1400) "DELETE")

;; An error, and that the header is forbidden.
(func $must_be_forbidden (param $fields i32) (param $name i32) (param $length i32)
  (call $append (local.get $fields) (local.get $name) (local.get $length)
    (i32.const 1400) (i32.const 6) (i32.const 16))
  (if (i32.ne (i32.load8_u $memory (i32.const 16)) (i32.const 1)) (then (unreachable)))
  (if (i32.ne (i32.load8_u $memory (i32.const 17)) (i32.const 1)) (then (unreachable))))
(func $execute (param $call i32) (result i32) (local $fields i32)
  (local.set $fields (call $fields))
  (call $must_be_forbidden (local.get $fields) (i32.const 1024) (i32.const 22))
  (call $must_be_forbidden (local.get $fields) (i32.const 1100) (i32.const 13))
  (call $must_be_forbidden (local.get $fields) (i32.const 1200) (i32.const 17))
  (call $must_be_forbidden (local.get $fields) (i32.const 1300) (i32.const 22))
  (global.get $returns))
