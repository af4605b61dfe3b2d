;; Returns a message and data that the model could not read to the end: 1 MiB.
;;
;; returns: {"ok": {"result": {"message": {"$repeat": ["m", 524288]}, "data":
;;   {"$join": ["\"", {"$repeat": ["d", 524288]}, "\""]}}}}
;; limit: result seen by the model
;; expects: succeeds
