//go:build !wasip1

package tool

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// sendHTTP sends the requests of a test with the program's own means, one after another.
func sendHTTP(requests []HTTPRequest) []HTTPResult {
	results := make([]HTTPResult, len(requests))
	for at, request := range requests {
		results[at] = sendOne(request)
	}
	return results
}

func sendOne(asked HTTPRequest) HTTPResult {
	failed := func(code, message string) HTTPResult { return HTTPResult{Err: &HTTPError{code, message}} }
	request, err := http.NewRequest(asked.Method, asked.URL, bytes.NewReader(asked.Body))
	if err != nil || !strings.HasPrefix(asked.URL, "http") {
		return failed("bad_request", "\""+asked.URL+"\" is not an http or https URL.")
	}
	for _, header := range asked.Headers {
		request.Header.Add(header.Name, header.Value)
	}
	origin := request.URL.Scheme + "://" + request.URL.Host
	client := http.Client{
		Timeout:       max(asked.Timeout, 0),
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if client.Timeout == 0 {
		client.Timeout = 10 * time.Second
	}
	response, err := client.Do(request)
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return failed("timed_out", origin+" does not answer in time.")
	case err != nil:
		return failed("unreachable", origin+" cannot be reached: "+err.Error()+".")
	}
	defer response.Body.Close()
	most := int64(16 << 20)
	if asked.MaxBodyBytes > 0 {
		most = int64(asked.MaxBodyBytes)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	if err != nil {
		return failed("bad_response", origin+" does not answer in acceptable HTTP.")
	}
	read := &HTTPResponse{Status: response.StatusCode, Body: body, Truncated: int64(len(body)) > most}
	if read.Truncated {
		read.Body = body[:most]
	}
	for name, values := range response.Header {
		for _, value := range values {
			read.Headers = append(read.Headers, HTTPHeader{strings.ToLower(name), value})
		}
	}
	return HTTPResult{Response: read}
}
