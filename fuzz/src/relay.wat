;; Returns the bytes of its arguments, which are their hexadecimal digits in
;; `{"h":"..."}`, as the result that they spell in the ABI: at 4096 in its memory.
;;
;; descriptor: {"state": [
;;   {"key": "relay.set", "read": true, "write": true, "defines": {"initial": "0", "reducer": "replace", "scope": "thread", "persistent": true}},
;;   {"key": "relay.patch", "read": true, "write": true, "defines": {"initial": "{}", "reducer": "merge-patch", "scope": "thread", "persistent": true}},
;;   {"key": "relay.list", "read": true, "write": true, "defines": {"initial": "[]", "reducer": "append", "scope": "run", "persistent": true}},
;;   {"key": "relay.sum", "read": true, "write": true, "defines": {"initial": "0", "reducer": "add", "scope": "thread", "persistent": false}},
;;   {"key": "relay.union", "read": true, "write": true, "defines": {"initial": "[]", "reducer": "union", "scope": "thread", "persistent": true}},
;;   {"key": "relay.most", "read": true, "write": true, "defines": {"initial": "0", "reducer": "max", "scope": "thread", "persistent": true}}]}
;; expects: succeeds

(func $digit (param $at i32) (result i32) (local $digit i32)
  (local.set $digit (i32.sub (i32.load8_u $memory (local.get $at)) (i32.const 48)))
  (if (result i32) (i32.gt_u (local.get $digit) (i32.const 9))
    (then (i32.sub (local.get $digit) (i32.const 39)))
    (else (local.get $digit))))
(func $execute (param $call i32) (result i32) (local $from i32) (local $end i32) (local $to i32)
  (local.set $from (i32.add (i32.load $memory (local.get $call)) (i32.const 6)))
  (local.set $end
    (i32.add (local.get $from) (i32.sub (i32.load $memory offset=4 (local.get $call)) (i32.const 8))))
  (local.set $to (i32.const 4096))
  (block $done
    (loop $next
      (br_if $done (i32.ge_u (local.get $from) (local.get $end)))
      (i32.store8 $memory (local.get $to)
        (i32.or (i32.shl (call $digit (local.get $from)) (i32.const 4))
                (call $digit (i32.add (local.get $from) (i32.const 1)))))
      (local.set $from (i32.add (local.get $from) (i32.const 2)))
      (local.set $to (i32.add (local.get $to) (i32.const 1)))
      (br $next)))
  (i32.const 4096))
