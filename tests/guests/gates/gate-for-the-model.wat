;; Writes escapes and invisible characters into the reason that model and person
;; read.
;;
;; kind: gate
;; returns: {"deny": "no\u001b[2J\u202e\u200b!"}
;; limit: text is cleaned
;; expects: denied
