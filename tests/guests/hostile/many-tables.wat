;; Has 99 tables of no elements in one module.
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
