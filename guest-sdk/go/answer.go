package tool

// An Answer is a tool's own; what the tool changed commits with it.
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
	// Action is what is waited for, such as "approve".
	Action  string
	Message string
	// Parameters are what the person should see beside the question.
	Parameters any
	// ResponseSchema is JSON Schema of the answer, as text; none where empty.
	ResponseSchema string
	ResumeMode     ResumeMode
}

// A ResumeMode is how a decided call goes on.
type ResumeMode uint8

// The modes: run again with the first arguments, take the decision as the result,
// or run again with the decision as arguments.
const (
	ReplayToolCall ResumeMode = iota
	UseDecisionAsToolResult
	PassDecisionToTool
)

// Success is an answer with data.
func Success(data any) Answer { return Answer{status: success, Data: data} }

// SuccessWithMessage is an answer with data and words beside it.
func SuccessWithMessage(data any, message string) Answer {
	return Answer{status: success, Data: data, Message: message}
}

// Error is the tool's own answer that it failed, for the model; without a code where
// that is empty.
func Error(code, message string) Answer {
	var data any
	if code != "" {
		data = map[string]any{"error": map[string]any{"code": code, "message": message}}
	}
	return Answer{status: failure, Data: data, Message: message}
}

// Suspend waits for a person.
func Suspend(ticket Ticket) Answer {
	return Answer{status: pending, Message: ticket.Message, Ticket: &ticket}
}

// Ask waits for a person's plain confirmation.
func Ask(message string) Answer { return Answer{status: pending, Message: message} }

// IsError says whether the tool answered that it failed.
func (a Answer) IsError() bool { return a.status == failure }

// IsPending says whether the call waits for a person.
func (a Answer) IsPending() bool { return a.status == pending }

// A Refusal ends the call without an answer of the tool's own; nothing commits.
type Refusal struct {
	kind    uint8
	Message string
}

func (r Refusal) Error() string { return r.Message }

// The kinds, in the order of the contract.
const (
	invalidArguments uint8 = iota
	executionFailed
	denied
	notFound
	internal
)

// InvalidArguments says that the arguments are wrong in a way that the schema does
// not say.
func InvalidArguments(message string) error { return Refusal{invalidArguments, message} }

// Failed says that it was tried and did not work.
func Failed(message string) error { return Refusal{executionFailed, message} }

// Denied says that the tool itself does not allow it.
func Denied(message string) error { return Refusal{denied, message} }

// NotFound says that what the arguments name does not exist.
func NotFound(message string) error { return Refusal{notFound, message} }

// Internal is the tool's own fault; the message goes to the operator alone.
func Internal(message string) error { return Refusal{internal, message} }
