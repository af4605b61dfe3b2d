;; Nests 24 components that each instantiate the next one twice: 16 million instances.
;;
;; limit: loading
;; expects: refused "more than 100000 items"

(component
  (component $c
    (component $c
      (component $c
        (component $c
          (component $c
            (component $c
              (component $c
                (component $c
                  (component $c
                    (component $c
                      (component $c
                        (component $c
                          (component $c
                            (component $c
                              (component $c
                                (component $c
                                  (component $c
                                    (component $c
                                      (component $c
                                        (component $c
                                          (component $c
                                            (component $c
                                              (component $c
                                                (component $c
                                                  (component $c (core module $m) (core instance (instantiate $m)))
                                                  (instance (instantiate $c)) (instance (instantiate $c)))
                                                (instance (instantiate $c)) (instance (instantiate $c)))
                                              (instance (instantiate $c)) (instance (instantiate $c)))
                                            (instance (instantiate $c)) (instance (instantiate $c)))
                                          (instance (instantiate $c)) (instance (instantiate $c)))
                                        (instance (instantiate $c)) (instance (instantiate $c)))
                                      (instance (instantiate $c)) (instance (instantiate $c)))
                                    (instance (instantiate $c)) (instance (instantiate $c)))
                                  (instance (instantiate $c)) (instance (instantiate $c)))
                                (instance (instantiate $c)) (instance (instantiate $c)))
                              (instance (instantiate $c)) (instance (instantiate $c)))
                            (instance (instantiate $c)) (instance (instantiate $c)))
                          (instance (instantiate $c)) (instance (instantiate $c)))
                        (instance (instantiate $c)) (instance (instantiate $c)))
                      (instance (instantiate $c)) (instance (instantiate $c)))
                    (instance (instantiate $c)) (instance (instantiate $c)))
                  (instance (instantiate $c)) (instance (instantiate $c)))
                (instance (instantiate $c)) (instance (instantiate $c)))
              (instance (instantiate $c)) (instance (instantiate $c)))
            (instance (instantiate $c)) (instance (instantiate $c)))
          (instance (instantiate $c)) (instance (instantiate $c)))
        (instance (instantiate $c)) (instance (instantiate $c)))
      (instance (instantiate $c)) (instance (instantiate $c)))
    (instance (instantiate $c)) (instance (instantiate $c)))
  (instance (instantiate $c)))
