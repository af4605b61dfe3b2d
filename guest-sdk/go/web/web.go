// Package web makes net/http send its requests through the host: a tool has no sockets.
// Importing it is enough, also for libraries that use net/http:
//
//	import (
//		"net/http"
//
//		_ "tollgate.dev/tool/web"
//	)
//
//	response, err := http.Get("https://api.example.com/v1/items")
//
// The host sends a request only if an operator granted it, and adds the secrets that
// belong to the server. A request without a response is an error that wraps a
// *tool.HTTPError. Requests are sent one after another: nothing else happens meanwhile.
package web

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"tollgate.dev/tool"
)

// A Transport sends requests through the host. In a component, http.DefaultTransport is
// one; tests have the program's own.
type Transport struct {
	// MaxBodyBytes is the longest body that may be read; a longer one is an error with
	// the code too_large. 0 for the host's limit.
	MaxBodyBytes uint32
}

// RoundTrip sends one request and reads the whole body of its response.
func (t Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	asked := tool.HTTPRequest{Method: request.Method, URL: request.URL.String(), MaxBodyBytes: t.MaxBodyBytes}
	if asked.Method == "" {
		asked.Method = http.MethodGet
	}
	if request.Body != nil {
		body, err := io.ReadAll(request.Body)
		request.Body.Close()
		if err != nil {
			return nil, err
		}
		asked.Body = body
	}
	for name, values := range request.Header {
		for _, value := range values {
			asked.Headers = append(asked.Headers, tool.HTTPHeader{Name: name, Value: value})
		}
	}
	if err := request.Context().Err(); err != nil {
		return nil, err
	}
	if deadline, is := request.Context().Deadline(); is {
		asked.Timeout = time.Until(deadline)
		if asked.Timeout <= 0 {
			return nil, context.DeadlineExceeded
		}
	}
	result := tool.SendHTTP(asked)[0]
	if result.Err != nil {
		return nil, result.Err
	}
	if result.Response.Truncated {
		return nil, &tool.HTTPError{
			Code:    "too_large",
			Message: fmt.Sprintf("The answer is longer than %d bytes.", t.MaxBodyBytes),
		}
	}
	return responseOf(result.Response, request), nil
}

func responseOf(read *tool.HTTPResponse, request *http.Request) *http.Response {
	header := http.Header{}
	for _, field := range read.Headers {
		header.Add(field.Name, field.Value)
	}
	return &http.Response{
		Status:        fmt.Sprintf("%d %s", read.Status, http.StatusText(read.Status)),
		StatusCode:    read.Status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        header,
		Body:          io.NopCloser(bytes.NewReader(read.Body)),
		ContentLength: int64(len(read.Body)),
		Request:       request,
	}
}
