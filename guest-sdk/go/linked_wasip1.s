// Lets memory_wasip1.go name a function of the runtime without a body.
