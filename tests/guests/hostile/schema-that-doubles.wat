;; Has a small schema whose check takes 2^40 steps.
;;
;; descriptor: {"tools": [{"parameters": {"$join": [
;;   "{\"type\": \"object\", \"$ref\": \"#/$defs/d0\", \"$defs\": {",
;;   {"$count": ["\"d@\": {\"allOf\": [{\"$ref\": \"#/$defs/d@+1\"}, {\"$ref\": \"#/$defs/d@+1\"}]}", 40]},
;;   ", \"d40\": {\"required\": [\"a\"]}}}"]}}]}
;; limit: schemas
;; expects: refused "schema"
