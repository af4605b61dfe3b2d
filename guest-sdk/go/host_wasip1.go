package tool

import (
	"math"
	"unsafe"
)

// The functions of tollgate:tool/call@0.1.0, as the canonical ABI flattens them.

//go:wasmimport tollgate:tool/call@0.1.0 report-activity
func callReportActivity(kind unsafe.Pointer, kindLen uint32, content unsafe.Pointer, contentLen uint32)

//go:wasmimport tollgate:tool/call@0.1.0 report-activity-delta
func callReportActivityDelta(kind unsafe.Pointer, kindLen uint32, patch unsafe.Pointer, patchLen uint32)

//go:wasmimport tollgate:tool/call@0.1.0 report-progress
func callReportProgress(status, hasMessage uint32, message unsafe.Pointer, messageLen, hasProgress uint32, progress float64)

//go:wasmimport tollgate:tool/call@0.1.0 stream-output
func callStreamOutput(delta unsafe.Pointer, deltaLen uint32)

//go:wasmimport tollgate:tool/call@0.1.0 log
func callLog(level uint32, message unsafe.Pointer, messageLen uint32)

//go:wasmimport tollgate:tool/call@0.1.0 read-state
func callReadState(key unsafe.Pointer, keyLen uint32, returned unsafe.Pointer)

//go:wasmimport tollgate:tool/call@0.1.0 is-cancelled
func callIsCancelled() uint32

func reportActivity(kind, content string) {
	callReportActivity(start(kind), uint32(len(kind)), start(content), uint32(len(content)))
}

func reportActivityDelta(kind, patch string) {
	callReportActivityDelta(start(kind), uint32(len(kind)), start(patch), uint32(len(patch)))
}

func reportProgress(status Progress, fraction float64, message string) {
	var hasMessage, hasFraction uint32
	if message != "" {
		hasMessage = 1
	}
	if math.IsNaN(fraction) {
		fraction = 0
	} else {
		hasFraction = 1
	}
	callReportProgress(uint32(status), hasMessage, start(message), uint32(len(message)), hasFraction, fraction)
}

func streamOutput(delta string) { callStreamOutput(start(delta), uint32(len(delta))) }

func log(level Level, message string) { callLog(uint32(level), start(message), uint32(len(message))) }

func readState(key string) (string, bool) {
	returned := make([]uint32, 3)
	callReadState(start(key), uint32(len(key)), unsafe.Pointer(&returned[0]))
	if byte(returned[0]) == 0 {
		return "", false
	}
	value := &reader{uintptr(unsafe.Pointer(&returned[1]))}
	return value.text(), true
}

func isCancelled() bool { return callIsCancelled() != 0 }

func start(text string) unsafe.Pointer { return unsafe.Pointer(unsafe.StringData(text)) }
