// Package tool is for writing Tollgate tools in Go.
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
// Each call runs in a fresh instance: variables do not keep their values until the
// next call. Use state for values that have to last.
package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// A Component is a set of tools under one id, and the state that they share.
type Component struct {
	// ID fits [a-z][a-z0-9-]{0,63}; grants and state keys belong to it.
	ID string
	// Version is the version shown to people.
	Version string
	// State is the only state that the tools may read or change.
	State []Key
	Tools []Tool
}

// A Key is a piece of state that a component defines or reaches by grant.
type Key struct {
	// Name is the component's own key if it has no dot, and another component's key
	// otherwise.
	Name string
	// Initial is the value of an own key before the first update.
	Initial any
	// Reducer is how an update is applied to the value.
	Reducer Reducer
	// Thread makes the key live as long as the thread; otherwise it ends with the run.
	Thread bool
	// Persistent makes the key outlive the host's process.
	Persistent bool
	// Schema is JSON Schema of the value, as text; empty for none.
	Schema string
	// Access is the access of the tools to the key.
	Access Access
}

// An Access is the access of tools to a key.
type Access uint8

// The kinds of access. By default, own keys are read and written, and other
// components' keys are read.
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

// A Reducer is how an update is applied to a key's value.
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
	// TimeoutMS limits one attempt; 0 for the host's default.
	TimeoutMS uint32
	// MaxRetries is the number of attempts after the first; nil for the host's default.
	MaxRetries *uint32
	// Idempotent declares that running again is harmless.
	Idempotent bool
	// Validate checks constraints that the schema cannot express; it may be nil. Decode
	// parses the arguments as for the tool.
	Validate func(args json.RawMessage) error
	execute  func(call *Call, args json.RawMessage) (any, error)
}

// New makes a function a tool. The schema of its arguments follows from the struct A:
// see Schema. The function returns the data of a success, or an Answer. An error made
// by InvalidArguments, Failed, Denied or NotFound reaches the model; any other error
// is a bug of the tool and goes to the operator, like one made by Internal.
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

// Serve registers the component that the host calls. Call it once, from init.
func Serve(component Component) { served = component }

func find(name string) (Tool, error) {
	for _, tool := range served.Tools {
		if tool.Name == name {
			return tool, nil
		}
	}
	return Tool{}, fmt.Errorf("there is no tool %q", name)
}

// Run calls a tool of the component as the host would, in a test. Keys of the component
// that are not in the call's Snapshot have their initial values.
func Run(component Component, call *Call, args string) (Answer, error) {
	served = component
	call.componentID = component.ID
	if err := call.begin(component.State); err != nil {
		return Answer{}, err
	}
	answer, _, err := run(call, args)
	return answer, err
}

// written is an answer as JSON, as the host reads it.
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

// text encodes JSON without escapes for HTML.
func text(value any) (string, error) {
	var written bytes.Buffer
	encoder := json.NewEncoder(&written)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", err
	}
	return strings.TrimSuffix(written.String(), "\n"), nil
}
