package tool

import "unsafe"

// The functions of tollgate:tool/content@0.1.0, as the canonical ABI flattens them.

//go:wasmimport tollgate:tool/content@0.1.0 attach
func contentAttach(mimeType unsafe.Pointer, mimeTypeLen uint32, data unsafe.Pointer, dataLen, hasURI uint32, uri unsafe.Pointer, uriLen uint32, returned unsafe.Pointer)

//go:wasmimport tollgate:tool/content@0.1.0 link
func contentLink(uri unsafe.Pointer, uriLen uint32, name unsafe.Pointer, nameLen, hasDescription uint32, description unsafe.Pointer, descriptionLen, hasMimeType uint32, mimeType unsafe.Pointer, mimeTypeLen uint32, returned unsafe.Pointer)

func attach(mimeType string, data []byte, uri string) string {
	returned := make([]uint32, 3)
	contentAttach(start(mimeType), uint32(len(mimeType)), unsafe.Pointer(unsafe.SliceData(data)), uint32(len(data)),
		present(uri), start(uri), uint32(len(uri)), unsafe.Pointer(&returned[0]))
	return refusal(returned)
}

func link(uri, name, description string) string {
	returned := make([]uint32, 3)
	contentLink(start(uri), uint32(len(uri)), start(name), uint32(len(name)),
		present(description), start(description), uint32(len(description)), 0, nil, 0, unsafe.Pointer(&returned[0]))
	return refusal(returned)
}

func present(text string) uint32 {
	if text == "" {
		return 0
	}
	return 1
}

// refusal returns the error of a result without a value; empty for a success.
func refusal(returned []uint32) string {
	if byte(returned[0]) == 0 {
		return ""
	}
	why := &reader{uintptr(unsafe.Pointer(&returned[1]))}
	return why.text()
}
