;; Begins like compiled code of wasmtime, which a host that maps it would run
;; unchecked.
;;
;; form: bytes 7f 45 4c 46 02 01 01 c8 00 00 00 00 00 00 00 00 01 00 3e 00 01 00 00 00
;;   00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
;;   02 00 00 00 40 00 00 00 00 00 00 00 40 00 00 00
;; limit: file
;; expects: refused "precompiled"
