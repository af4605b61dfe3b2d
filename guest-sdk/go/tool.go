// Package tool writes Tollgate tools in Go.
//
// A tool is a function from arguments to data; the arguments' struct is the
// schema:
//
//	type Args struct {
//		Text string `json:"text" desc:"What to say."`
//	}
//
//	func shout(call *tool.Call, args Args) (any, error) {
//		return strings.ToUpper(args.Text), nil
//	}
//
//	func init() {
//		tool.Serve(tool.Component{
//			ID:    "shout",
//			Tools: []tool.Tool{tool.New("shout", "Says it loudly.", shout)},
//		})
//	}
//
//	func main() {}
//
// Each call runs in a fresh instance: nothing that a tool keeps in variables is
// there at the next call. What shall last is state.
package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// A Component is tools, and the state that they share, under one id.
type Component struct {
	// ID fits [a-z][a-z0-9-]{0,63}; grants and state keys belong to it.
	ID string
	// Version is free text, for people.
	Version string
	// State is all that the tools may see or change.
	State []Key
	Tools []Tool
}

// A Key is state that a component brings along or reaches by grant.
type Key struct {
	// Name without a dot is a key of the component's own, one with a dot is
	// another component's.
	Name string
	// Initial is the value before the first update of an own key.
	Initial any
	// Reducer is how an update becomes part of the value.
	Reducer Reducer
	// Thread-scoped keys live as long as the thread, others end with the run.
	Thread bool
	// Persistent keys survive the host's process.
	Persistent bool
	// Schema is JSON Schema of the value, as text; none where empty.
	Schema string
	// Access is what the tools do with it.
	Access Access
}

// An Access is what tools do with a key.
type Access uint8

// The accesses. Where none is stated, own keys are read and written, and another
// component's are read.
const (
	Unstated Access = iota
	ReadOnly
	WriteOnly
	ReadWrite
)

func (k Key) isOwn() bool { return !strings.Contains(k.Name, ".") }

func (k Key) isRead() bool { return k.Access != WriteOnly }

func (k Key) isWritten() bool {
	return k.Access == WriteOnly || k.Access == ReadWrite || k.Access == Unstated && k.isOwn()
}

// A Reducer is how an update becomes part of a key's value.
type Reducer uint8

// The reducers; the last four commute.
const (
	Replace Reducer = iota
	MergePatch
	Append
	Add
	Union
	Max
)

// A Tool is one function that a model can call.
type Tool struct {
	ID, Name, Description string
	// Parameters is JSON Schema of the arguments.
	Parameters string
	Category   string
	// TimeoutMS bounds one attempt; the host's default where 0.
	TimeoutMS uint32
	// MaxRetries counts attempts after the first; the host's default where nil.
	MaxRetries *uint32
	// Idempotent tools may run again without harm.
	Idempotent bool
	// Validate checks what the schema cannot say; nil where there is nothing. Decode
	// reads the arguments as the tool does.
	Validate func(args json.RawMessage) error
	execute  func(call *Call, args json.RawMessage) (any, error)
}

// New makes a tool of a function. The schema of its arguments follows from the
// struct A: see Schema. What the function returns is the data of a success, or an
// Answer; an error made by InvalidArguments, Failed, Denied or NotFound reaches the
// model, any other is the tool's own fault and goes to the operator, as one made by
// Internal does.
func New[A any](name, description string, run func(*Call, A) (any, error)) Tool {
	return Tool{
		ID:          strings.ReplaceAll(strings.ToLower(name), "_", "-"),
		Name:        name,
		Description: description,
		Parameters:  Schema[A](),
		execute: func(call *Call, given json.RawMessage) (any, error) {
			args, err := Decode[A](given)
			if err != nil {
				return nil, err
			}
			return run(call, args)
		},
	}
}

var served Component

// Serve makes the component what the host calls. Call it once, from init.
func Serve(component Component) { served = component }

func find(name string) (Tool, error) {
	for _, tool := range served.Tools {
		if tool.Name == name {
			return tool, nil
		}
	}
	return Tool{}, fmt.Errorf("there is no tool %q", name)
}

// Run calls a tool of the component as the host would, in a test.
func Run(component Component, call *Call, args string) (Answer, error) {
	served = component
	answer, _, err := run(call, args)
	return answer, err
}

// written is what the host reads of an answer as JSON.
type written struct{ data, parameters string }

func run(call *Call, args string) (Answer, written, error) {
	call.componentID = served.ID
	tool, err := find(call.ToolName)
	if err != nil {
		return Answer{}, written{}, err
	}
	returned, err := tool.execute(call, json.RawMessage(args))
	if err != nil {
		return Answer{}, written{}, err
	}
	answer, is := returned.(Answer)
	if !is {
		answer = Success(returned)
	}
	texts, err := answer.write()
	if err != nil {
		return Answer{}, written{}, fmt.Errorf("the answer of %s cannot be written as JSON: %w", call.ToolName, err)
	}
	return answer, texts, nil
}

func (a Answer) write() (texts written, err error) {
	if texts.data, err = text(a.Data); err == nil && a.Ticket != nil {
		texts.parameters, err = text(a.Ticket.Parameters)
	}
	return texts, err
}

// text writes JSON as it is meant to be read, without escapes for HTML.
func text(value any) (string, error) {
	var written bytes.Buffer
	encoder := json.NewEncoder(&written)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", err
	}
	return strings.TrimSuffix(written.String(), "\n"), nil
}
