module tollgate.dev/tool

go 1.24
