;; Returns an object with a key that the host's JSON library reserves: a record of it
;; could be written but not read back.
;;
;; returns: {"ok": {"result": {"data": "{\"$serde_json::private::RawValue\":1}"}}}
;; limit: JSON
;; expects: malformed_output
