module weather

go 1.24

require tollgate.dev/tool v0.0.0

replace tollgate.dev/tool => ../../../guest-sdk/go
