;; Returns an invalid character: half of a surrogate pair.
;;
;; world: export letter: func() -> char;
;; limit: ABI
;; expects: malformed_output

(module (func (export "letter") (result i32) (i32.const 0xd800)))
