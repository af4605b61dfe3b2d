;; Is a file of another type.
;;
;; form: bytes 25 50 44 46 2d 31 2e 37 0a
;; limit: file
;; expects: refused "component"
