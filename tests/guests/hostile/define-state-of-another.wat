;; Defines a key that belongs to another component.
;;
;; descriptor: {"state": [{"key": "notes.items", "write": true, "defines": {"initial": "[]"}}]}
;; limit: state
;; expects: refused "may define only"
