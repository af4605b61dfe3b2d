;; A component without any language in between: a tool that returns its arguments,
;; in WebAssembly's text format.
;;
;; `tollgate build` writes the contract's type into this module, which makes it a
;; component. From then on the host calls three exports, named by interface and
;; function, and passes values as the canonical ABI of the component model lays
;; them out: fields one after the other, each at a multiple of its alignment; text
;; and lists as a pointer and a length, four bytes each; a variant as a byte that
;; says which case, and then room for the largest of them.
(module
  ;; 64 KiB. The host reads results out of it, and writes arguments into it.
  (memory (export "memory") 1)

  ;; --- what `describe` returns, written down where it is read

  (data (i32.const 0) "arguments")       ;; 9 bytes: the component's and the tool's id
  (data (i32.const 16) "0.1.0")          ;; 5: its version
  (data (i32.const 32) "return_arguments") ;; 16: what the model calls
  (data (i32.const 48) "Returns the arguments that it is given.") ;; 39
  (data (i32.const 96) "{}")             ;; 2: JSON Schema of the arguments; any object

  ;; The tool's descriptor, 64 bytes from 128 on.
  (data (i32.const 128)
    "\00\00\00\00\09\00\00\00"           ;; id: at 0, 9 bytes
    "\20\00\00\00\10\00\00\00"           ;; name: at 32, 16 bytes
    "\30\00\00\00\27\00\00\00"           ;; description: at 48, 39 bytes
    "\60\00\00\00\02\00\00\00"           ;; parameters: at 96, 2 bytes
    "\00\00\00\00\00\00\00\00\00\00\00\00" ;; category: none
    "\00\00\00\00\00\00\00\00"           ;; timeout: none
    "\00\00\00\00\00\00\00\00"           ;; retries: none
    "\01\00\00\00")                      ;; idempotent: yes; validates: no

  ;; The component's descriptor, 32 bytes from 192 on.
  (data (i32.const 192)
    "\00\00\00\00\09\00\00\00"           ;; id
    "\10\00\00\00\05\00\00\00"           ;; version
    "\80\00\00\00\01\00\00\00"           ;; tools: a list at 128, of one
    "\00\00\00\00\00\00\00\00")          ;; state: a list of none

  (func (export "tollgate:tool/tool@0.1.0#describe") (result i32)
    (i32.const 192))

  ;; --- what `validate-args` returns: 0 is the case `ok`

  (func (export "tollgate:tool/tool@0.1.0#validate-args")
    (param $name i32) (param $name-len i32) (param $args i32) (param $args-len i32) (result i32)
    (i32.const 256))

  ;; --- what `execute` returns: a result<tool-output, tool-error>, 88 bytes from 256
  ;; on, all of them 0 to begin with. So it is `ok`, its status is `success`, there
  ;; is no message, no mutation and no action. The data's pointer is at 52 of it.

  ;; Arguments and context are more values than the ABI passes one by one: they lie
  ;; in memory as one record, which begins with the arguments.
  (func (export "tollgate:tool/tool@0.1.0#execute") (param $record i32) (result i32)
    (i32.store (i32.const 308) (i32.load (local.get $record)))          ;; 256 + 52
    (i32.store (i32.const 312) (i32.load offset=4 (local.get $record)))
    (i32.const 256))

  ;; --- room for what the host writes: from 512 on, one piece behind the other.
  ;; Nothing is given back, because an instance serves one call and ends.

  (global $free (mut i32) (i32.const 512))

  (func (export "cabi_realloc")
    (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
    (local $at i32)
    ;; Round up to the alignment, which is a power of two.
    (local.set $at
      (i32.and
        (i32.add (global.get $free) (i32.sub (local.get $align) (i32.const 1)))
        (i32.sub (i32.const 0) (local.get $align))))
    (global.set $free (i32.add (local.get $at) (local.get $size)))
    ;; Ask for as many pages of 64 KiB as are missing; the host may refuse.
    (block $enough
      (br_if $enough
        (i32.le_u (global.get $free) (i32.mul (memory.size) (i32.const 65536))))
      (br_if $enough
        (i32.ne (i32.const -1)
          (memory.grow
            (i32.sub
              (i32.div_u (i32.add (global.get $free) (i32.const 65535)) (i32.const 65536))
              (memory.size)))))
      (unreachable))
    (local.get $at)))
