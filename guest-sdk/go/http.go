package tool

import "time"

// An HTTPRequest is a request as the host sends it: redirects are not followed. Programs
// use net/http with the package tollgate.dev/tool/web; SendHTTP is for tools that want to
// do without net/http, which is large.
type HTTPRequest struct {
	Method, URL string
	Headers     []HTTPHeader
	Body        []byte
	// Timeout is the time until the whole body has arrived; 0 for what is left of the
	// call's time.
	Timeout time.Duration
	// MaxBodyBytes is the part of the body that is read; 0 for all of it, up to the
	// host's limit.
	MaxBodyBytes uint32
}

// An HTTPHeader is one header; in a response, its name is in lower case.
type HTTPHeader struct{ Name, Value string }

// An HTTPResponse is a response; any status is one.
type HTTPResponse struct {
	Status  int
	Headers []HTTPHeader
	Body    []byte
	// Truncated is whether the body is longer than MaxBodyBytes.
	Truncated bool
}

// An HTTPError is the reason why there is no response.
type HTTPError struct {
	// Code is the same in every language: denied, bad_request, unreachable, timed_out,
	// too_large or bad_response.
	Code string
	// Message is a sentence for the model.
	Message string
}

func (e *HTTPError) Error() string { return e.Message }

// Timeout returns whether the server did not answer in time.
func (e *HTTPError) Timeout() bool { return e.Code == "timed_out" }

// Temporary returns whether the same request may succeed later.
func (e *HTTPError) Temporary() bool { return e.Code == "timed_out" || e.Code == "unreachable" }

// An HTTPResult is the outcome of one request: one of the two is set.
type HTTPResult struct {
	Response *HTTPResponse
	Err      *HTTPError
}

// SendHTTP sends all these requests at once; the results are in their order. The host
// sends a request only if an operator granted it, and adds the secrets that belong to
// the server.
func SendHTTP(requests ...HTTPRequest) []HTTPResult { return sendHTTP(requests) }
