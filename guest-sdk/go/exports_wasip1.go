package tool

import "unsafe"

// The functions of tollgate:tool/tool@0.1.0 that the host calls.

//go:wasmexport tollgate:tool/tool@0.1.0#describe
func exportDescribe() unsafe.Pointer {
	var out writer
	out.text(served.ID)
	out.text(served.Version)
	out.list(len(served.Tools), func(at int, out *writer) { writeTool(out, served.Tools[at]) })
	out.list(len(served.State), func(at int, out *writer) { writeKey(out, served.State[at]) })
	return out.done()
}

//go:wasmexport tollgate:tool/tool@0.1.0#validate-args
func exportValidateArgs(name unsafe.Pointer, nameLen uint32, args unsafe.Pointer, argsLen uint32) unsafe.Pointer {
	var out writer
	tool, err := find(unsafe.String((*byte)(name), nameLen))
	if err == nil && tool.Validate != nil {
		err = tool.Validate(unsafe.Slice((*byte)(args), argsLen))
	}
	out.bool(err != nil)
	if err != nil {
		writeRefusal(&out, err)
	}
	return out.done()
}

// Arguments and context have more values than the ABI passes individually: they come
// as one record in memory.
//
//go:wasmexport tollgate:tool/tool@0.1.0#execute
func exportExecute(record unsafe.Pointer) unsafe.Pointer {
	in := &reader{uintptr(record)}
	args := in.text()
	call := readCall(in)
	answer, texts, err := run(call, args)
	var out writer
	out.bool(err != nil)
	if err != nil {
		writeRefusal(&out, err)
		return out.done()
	}
	writeAnswer(&out, answer, texts)
	out.list(len(call.mutations), func(at int, out *writer) {
		out.text(call.mutations[at].key)
		out.text(call.mutations[at].update)
	})
	out.list(len(call.actions), func(at int, out *writer) {
		out.align(4)
		out.byte(call.actions[at].kind)
		out.text(call.actions[at].value)
	})
	return out.done()
}

func readCall(in *reader) *Call {
	call := &Call{
		ID: in.text(), ToolName: in.text(),
		RunID: in.text(), ThreadID: in.text(), AgentID: in.text(),
	}
	call.ParentRunID, call.ParentThreadID, call.ParentCallID = in.option(), in.option(), in.option()
	in.text() // the agent's id, again
	call.AgentDescription = in.option()
	in.list(8, func(in *reader) { call.Delegates = append(call.Delegates, in.text()) })
	in.align(8)
	call.Revision = in.long()
	call.Snapshot = map[string]string{}
	in.list(16, func(in *reader) {
		key := in.text()
		call.Snapshot[key] = in.text()
	})
	call.DeadlineMS, call.Attempt = in.word(), in.word()
	in.align(8)
	if in.tag(8) {
		call.Resume = &Resumption{
			SuspensionID: in.text(), Action: in.text(), Message: in.text(), DecisionID: in.text(),
			Value: []byte(in.text()), Reason: in.option(),
		}
		in.align(8)
		call.Resume.DecidedAtMS = in.long()
	}
	return call
}

func writeTool(out *writer, tool Tool) {
	out.text(tool.ID)
	out.text(tool.Name)
	out.text(tool.Description)
	out.text(tool.Parameters)
	out.option(tool.Category)
	out.optionalWord(tool.TimeoutMS != 0, tool.TimeoutMS)
	var retries uint32
	if tool.MaxRetries != nil {
		retries = *tool.MaxRetries
	}
	out.optionalWord(tool.MaxRetries != nil, retries)
	out.bool(tool.Idempotent)
	out.bool(tool.Validate != nil)
	out.align(4)
}

func writeKey(out *writer, key Key) {
	named := Call{componentID: served.ID}
	name := named.key(key.Name)
	out.text(name)
	out.bool(key.isRead())
	out.bool(key.isWritten())
	out.align(4)
	out.bool(key.isOwn())
	out.align(4)
	initial, err := text(key.Initial)
	if err != nil {
		panic(err)
	}
	out.text(initial)
	out.option(key.Schema)
	out.byte(byte(key.Reducer))
	out.bool(key.Thread)
	out.bool(key.Persistent)
	out.align(4)
}

func writeAnswer(out *writer, answer Answer, texts written) {
	out.align(4)
	out.byte(byte(answer.status))
	out.align(4)
	ticket := answer.Ticket
	out.bool(ticket != nil)
	out.align(4)
	if ticket == nil {
		ticket = &Ticket{}
	}
	out.text(ticket.Action)
	out.text(ticket.Message)
	out.text(texts.parameters)
	out.option(ticket.ResponseSchema)
	out.byte(byte(ticket.ResumeMode))
	out.align(4)
	out.text(texts.data)
	out.option(answer.Message)
}

func writeRefusal(out *writer, err error) {
	refusal := refusalOf(err)
	out.align(4)
	out.byte(refusal.kind)
	out.text(refusal.Message)
}
