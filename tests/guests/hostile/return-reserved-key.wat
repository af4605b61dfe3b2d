;; Returns an object with a key that the host's JSON library has for itself: a record of it could be written, and not be read again.
;;
;; returns: {"ok": {"result": {"data": "{\"$serde_json::private::RawValue\":1}"}}}
;; limit: JSON
;; expects: malformed_output
