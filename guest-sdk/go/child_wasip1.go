package tool

import "unsafe"

// The functions of tollgate:tool/agents@0.1.0 and tollgate:tool/settings@0.1.0, as the
// canonical ABI flattens them.

//go:wasmimport tollgate:tool/agents@0.1.0 run-child
func agentsRunChild(
	agent unsafe.Pointer, agentLen uint32, messages unsafe.Pointer, messageCount uint32,
	seed unsafe.Pointer, seedCount uint32, exports unsafe.Pointer, exportCount, streaming uint32,
	returned unsafe.Pointer,
)

//go:wasmimport tollgate:tool/settings@0.1.0 get
func settingsGet(name unsafe.Pointer, nameLen uint32, returned unsafe.Pointer)

func setting(name string) (string, bool) {
	returned := make([]uint32, 3)
	settingsGet(start(name), uint32(len(name)), unsafe.Pointer(&returned[0]))
	if byte(returned[0]) == 0 {
		return "", false
	}
	value := &reader{uintptr(unsafe.Pointer(&returned[1]))}
	return value.text(), true
}

func runChild(child ChildRun, seed [][2]string) (ChildOutcome, error) {
	var messages, seeds, exports writer
	for _, message := range child.Messages {
		messages.align(4)
		messages.bool(message.ByAssistant)
		messages.align(4)
		messages.text(message.Text)
	}
	for _, entry := range seed {
		seeds.text(entry[0])
		seeds.text(entry[1])
	}
	for _, key := range child.Exports {
		exports.text(key)
	}
	returned := make([]uint32, 22)
	agentsRunChild(
		start(child.Agent), uint32(len(child.Agent)), messages.done(), uint32(len(child.Messages)),
		seeds.done(), uint32(len(seed)), exports.done(), uint32(len(child.Exports)), uint32(child.Streaming),
		unsafe.Pointer(&returned[0]),
	)
	in := &reader{uintptr(unsafe.Pointer(&returned[0]))}
	if isErr := in.tag(4); isErr {
		return ChildOutcome{}, readChildError(in)
	}
	return readChildOutcome(in), nil
}

func readChildOutcome(in *reader) ChildOutcome {
	outcome := ChildOutcome{RunID: in.text()}
	outcome.Status = ChildStatus(*(*byte)(unsafe.Pointer(in.at)))
	reason := &reader{in.at + 4}
	switch outcome.Status {
	case ChildWaitingInput, ChildWaitingAuth, ChildSuspended:
		outcome.Reason = reason.option()
	case ChildFailed:
		outcome.Reason = reason.text()
	}
	in.at += 16
	outcome.Response, outcome.Streamed = in.option(), in.text()
	if output := in.option(); output != "" {
		outcome.Output = []byte(output)
	}
	outcome.Steps = in.word()
	outcome.State, outcome.ThreadState = readEntries(in), readEntries(in)
	return outcome
}

func readEntries(in *reader) map[string]string {
	if !in.tag(4) {
		in.at += 8
		return nil
	}
	entries := map[string]string{}
	in.list(16, func(entry *reader) {
		key := entry.text()
		entries[key] = entry.text()
	})
	return entries
}

func readChildError(in *reader) error {
	kind := *(*byte)(unsafe.Pointer(in.at))
	in.at += 4
	switch kind {
	case 3:
		var missing []string
		in.list(8, func(feature *reader) { missing = append(missing, feature.text()) })
		return childError(kind, "", missing, 0)
	case 4:
		return childError(kind, "", nil, in.word())
	default:
		return childError(kind, in.text(), nil, 0)
	}
}
