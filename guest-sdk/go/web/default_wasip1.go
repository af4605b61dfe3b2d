package web

import "net/http"

func init() { http.DefaultTransport = Transport{} }
