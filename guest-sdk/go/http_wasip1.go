package tool

import "unsafe"

// The function of tollgate:tool/http-client@0.1.0, as the canonical ABI flattens it.

//go:wasmimport tollgate:tool/http-client@0.1.0 send
func httpSend(requests unsafe.Pointer, count uint32, returned unsafe.Pointer)

var httpCodes = [...]string{"denied", "bad_request", "unreachable", "timed_out", "too_large", "bad_response"}

func sendHTTP(requests []HTTPRequest) []HTTPResult {
	var list writer
	for _, request := range requests {
		list.text(request.Method)
		list.text(request.URL)
		list.list(len(request.Headers), func(at int, header *writer) {
			header.text(request.Headers[at].Name)
			header.text(request.Headers[at].Value)
		})
		list.text(unsafe.String(unsafe.SliceData(request.Body), len(request.Body)))
		milliseconds := uint32(min(max(request.Timeout.Milliseconds(), 1), 1<<32-1))
		list.optionalWord(request.Timeout > 0, milliseconds)
		list.optionalWord(request.MaxBodyBytes > 0, request.MaxBodyBytes)
	}
	returned := make([]uint32, 2)
	httpSend(list.done(), uint32(len(requests)), unsafe.Pointer(&returned[0]))
	results := &reader{uintptr(unsafe.Pointer(&returned[0]))}
	var read []HTTPResult
	results.list(28, func(result *reader) { read = append(read, readHTTPResult(result)) })
	return read
}

func readHTTPResult(in *reader) HTTPResult {
	if isErr := in.tag(4); isErr {
		kind := *(*byte)(unsafe.Pointer(in.at))
		in.at += 4
		return HTTPResult{Err: &HTTPError{Code: httpCodes[kind], Message: in.text()}}
	}
	response := &HTTPResponse{Status: int(*(*uint16)(unsafe.Pointer(in.at)))}
	in.at += 4
	in.list(16, func(header *reader) {
		response.Headers = append(response.Headers, HTTPHeader{header.text(), header.text()})
	})
	body := in.text()
	response.Body = unsafe.Slice(unsafe.StringData(body), len(body))
	response.Truncated = *(*byte)(unsafe.Pointer(in.at)) != 0
	return HTTPResult{Response: response}
}
