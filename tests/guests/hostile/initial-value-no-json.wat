;; Declares state whose initial value is not JSON.
;;
;; descriptor: {"state": [{"key": "initial-value-no-json.a", "defines": {"initial": "oops"}}]}
;; limit: state
;; expects: refused "JSON"
