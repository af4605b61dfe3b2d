;; Declares that it writes a key of the host.
;;
;; descriptor: {"state": [{"key": "host.grants", "read": true, "write": true}]}
;; limit: state
;; expects: refused "host."
