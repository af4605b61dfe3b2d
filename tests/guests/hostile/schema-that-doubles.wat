;; Has a small schema whose check takes 2^31 steps.
;;
;; descriptor: {"tools": [{"parameters": {"$join": [
;;   "{\"type\": \"object\", \"$ref\": \"#/$defs/d0\", \"$defs\": {",
;;   {"$count": ["\"d@\": {\"allOf\": [{\"$ref\": \"#/$defs/d@+1\"}, {\"$ref\": \"#/$defs/d@+1\"}]}", 31]},
;;   ", \"d31\": {\"minProperties\": 0}}}"]}}]}
;; limit: schemas
;; expects: invalid_arguments
