package tool

import "errors"

// An Answer is the result of a tool; the tool's changes commit with it.
type Answer struct {
	status  status
	Data    any
	Message string
	Ticket  *Ticket
}

type status uint8

const (
	success status = iota
	pending
	failure
)

// A Ticket is a question to a person.
type Ticket struct {
	// Action is the awaited action, such as "approve".
	Action  string
	Message string
	// Parameters are data to show the person beside the question.
	Parameters any
	// ResponseSchema is JSON Schema of the answer, as text; empty for none.
	ResponseSchema string
	ResumeMode     ResumeMode
}

// A ResumeMode is the effect of a decision on the call.
type ResumeMode uint8

// The modes: run again with the original arguments, use the decision as the result,
// or run again with the decision as arguments.
const (
	ReplayToolCall ResumeMode = iota
	UseDecisionAsToolResult
	PassDecisionToTool
)

// Success is an answer with data.
func Success(data any) Answer { return Answer{status: success, Data: data} }

// SuccessWithMessage is an answer with data and a message.
func SuccessWithMessage(data any, message string) Answer {
	return Answer{status: success, Data: data, Message: message}
}

// Error is the tool's own answer that it failed, for the model; the code may be
// empty.
func Error(code, message string) Answer {
	var data any
	if code != "" {
		data = map[string]any{"error": map[string]any{"code": code, "message": message}}
	}
	return Answer{status: failure, Data: data, Message: message}
}

// Suspend waits for a person to answer the ticket.
func Suspend(ticket Ticket) Answer {
	return Answer{status: pending, Message: ticket.Message, Ticket: &ticket}
}

// Ask waits for a person's plain confirmation.
func Ask(message string) Answer { return Answer{status: pending, Message: message} }

// IsError returns whether the tool answered that it failed.
func (a Answer) IsError() bool { return a.status == failure }

// IsPending returns whether the call waits for a person.
func (a Answer) IsPending() bool { return a.status == pending }

// A Refusal ends the call without an answer of the tool's own; nothing commits.
type Refusal struct {
	kind    uint8
	Message string
}

func (r Refusal) Error() string { return r.Message }

// refusalOf returns the refusal that an error stands for, such as a request that was not
// granted; any other error is a bug of the tool.
func refusalOf(err error) Refusal {
	refusal := Refusal{internal, err.Error()}
	var failure *HTTPError
	if !errors.As(err, &refusal) && errors.As(err, &failure) && failure.Code == "denied" {
		refusal = Refusal{denied, failure.Message}
	}
	return refusal
}

// The kinds, in the order of the contract.
const (
	invalidArguments uint8 = iota
	executionFailed
	denied
	notFound
	internal
)

// InvalidArguments returns an error for arguments that are wrong in a way that the
// schema does not express.
func InvalidArguments(message string) error { return Refusal{invalidArguments, message} }

// Failed returns an error for an attempt that did not work.
func Failed(message string) error { return Refusal{executionFailed, message} }

// Denied returns an error for a call that the tool itself does not allow.
func Denied(message string) error { return Refusal{denied, message} }

// NotFound returns an error for arguments that name something that does not exist.
func NotFound(message string) error { return Refusal{notFound, message} }

// Internal returns an error for a bug of the tool; only the operator sees the
// message.
func Internal(message string) error { return Refusal{internal, message} }
