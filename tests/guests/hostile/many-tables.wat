;; Has 99 empty tables in one module.
;;
;; limit: tables
;; expects: refused "tables"

(table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref)
(table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref)
(table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref)
(table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref)
(table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref)
(table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref)
(table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref)
(table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref)
(table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref)
(table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref)
(table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref) (table 0 funcref)
