;; Has four tools whose schemas have 64 patterns each, nearly as large as allowed:
;; hundreds of MiB for a host that counts each tool separately.
;;
;; descriptor: {"tools": [
;;   {"id": "a", "name": "tool_a", "parameters": {"$join": ["{\"type\": \"object\", \"properties\": {",
;;     {"$count": ["\"a@\": {\"pattern\": \"[a-z]{2500}@\"}", 64]}, "}}"]}},
;;   {"id": "b", "name": "tool_b", "parameters": {"$join": ["{\"type\": \"object\", \"properties\": {",
;;     {"$count": ["\"a@\": {\"pattern\": \"[a-z]{2500}@\"}", 64]}, "}}"]}},
;;   {"id": "c", "name": "tool_c", "parameters": {"$join": ["{\"type\": \"object\", \"properties\": {",
;;     {"$count": ["\"a@\": {\"pattern\": \"[a-z]{2500}@\"}", 64]}, "}}"]}},
;;   {"id": "d", "name": "tool_d", "parameters": {"$join": ["{\"type\": \"object\", \"properties\": {",
;;     {"$count": ["\"a@\": {\"pattern\": \"[a-z]{2500}@\"}", 64]}, "}}"]}}]}
;; limit: schemas
;; expects: refused "patterns of one component"
