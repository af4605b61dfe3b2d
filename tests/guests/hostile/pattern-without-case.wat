;; Has a pattern of 1,000 case-insensitive classes that contain every character; each
;; takes milliseconds to compile.
;;
;; descriptor: {"tools": [{"parameters": {"$join": ["{\"type\": \"object\", \"properties\": {\"a\": ",
;;   "{\"type\": \"string\", \"pattern\": \"(?i)", {"$repeat": ["[^a]", 1000]}, "\"}}}"]}}]}
;; limit: schemas
;; expects: refused "character classes"
