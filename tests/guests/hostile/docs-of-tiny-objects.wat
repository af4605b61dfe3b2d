;; Has 1 MiB of tiny objects where plain components document their functions, although it describes
;; itself.
;;
;; docs: {"$join": ["\u0001{\"worlds\":[", {"$repeat": ["{\"\":0},", 149000]}, "0]}"]}
;; limit: description
;; expects: succeeds
