;; Returns a message and data of 1 MiB, too long for the model to read.
;;
;; returns: {"ok": {"result": {"message": {"$repeat": ["m", 524288]}, "data":
;;   {"$join": ["\"", {"$repeat": ["d", 524288]}, "\""]}}}}
;; limit: result seen by the model
;; expects: succeeds
