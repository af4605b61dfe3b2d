;; Has an id that is a path.
;;
;; descriptor: {"id": "../../etc"}
;; limit: names
;; expects: refused "component id"
