;; Is a component by the name of the host.
;;
;; descriptor: {"id": "host"}
;; limit: names
;; expects: refused "reserved"
