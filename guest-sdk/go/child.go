package tool

import (
	"encoding/json"
	"fmt"
	"strings"
)

// A ChildRun is a request for a run of another agent within this call. Each agent is
// granted by name.
type ChildRun struct {
	// Agent is the id of the agent.
	Agent string
	// Messages start its thread.
	Messages []ChildMessage
	// Seed holds the initial values of keys by their full names.
	Seed map[string]any
	// Exports are the full names of the keys to return.
	Exports []string
	// Streaming is how much of its text this call's clients see.
	Streaming Streaming
}

// A ChildMessage is one message, by the user unless ByAssistant is set.
type ChildMessage struct {
	Text        string
	ByAssistant bool
}

// A Streaming is how much of a child's text a call's clients see.
type Streaming uint8

// Nothing; its text as this call's output; the same, with its errors as errors.
const (
	Silent Streaming = iota
	Passthrough
	PassthroughRawErrors
)

// A ChildStatus is how a child ended, or what it waits for.
type ChildStatus uint8

// The statuses, in the order of the contract.
const (
	ChildCompleted ChildStatus = iota
	ChildWaitingInput
	ChildWaitingAuth
	ChildSuspended
	ChildFailed
	ChildCancelled
	ChildTimeout
)

var childHow = [...]string{
	"completed", "waits for input", "waits for a sign-in", "waits for a person", "failed", "was cancelled",
	"ran out of time",
}

// A ChildOutcome is the outcome of a child run. A child that does not complete is an
// outcome and not an error: the tool decides how to continue.
type ChildOutcome struct {
	RunID  string
	Status ChildStatus
	// Reason is what it waits for, or why it failed; it may be empty.
	Reason string
	// Response is its last text; empty if there is none.
	Response string
	// Streamed is the text of all its replies, one after another, as it streamed them.
	Streamed string
	// Output is structured output, if the agent declares a schema for it.
	Output json.RawMessage
	// Steps is the number of model turns.
	Steps uint32
	// State and ThreadState are the exported keys as JSON; nil if the agent has no state.
	State, ThreadState map[string]string
}

// Completed returns an error unless the child completed.
func (o ChildOutcome) Completed() error {
	if o.Status == ChildCompleted {
		return nil
	}
	reason := ""
	if o.Reason != "" {
		reason = ": " + o.Reason
	}
	return Failed("The child agent " + childHow[o.Status] + reason + ".")
}

// RunChild runs another agent and waits until it ends or waits for a person; the wait
// does not count against the call's time. The error is a Refusal if the child cannot be
// started.
func (c *Call) RunChild(child ChildRun) (ChildOutcome, error) {
	seed := make([][2]string, 0, len(child.Seed))
	for key, value := range child.Seed {
		written, err := text(value)
		if err != nil {
			return ChildOutcome{}, err
		}
		seed = append(seed, [2]string{key, written})
	}
	return runChild(child, seed)
}

// childError is the reason why a child could not be run, in the order of the contract.
func childError(kind byte, value string, missing []string, depth uint32) error {
	switch kind {
	case 0:
		return NotFound("There is no agent `" + value + "`.")
	case 1:
		return Denied("`" + value + "` is not granted to this component.")
	case 2:
		return Failed("The child agent refuses its first state: " + value + ".")
	case 3:
		return Failed("The child agent's backend cannot do what is asked: " + strings.Join(missing, ", ") + ".")
	case 4:
		return Failed(fmt.Sprintf("A child agent at depth %d is too deep: at most 4 stand below one another.", depth))
	default:
		return Failed(value)
	}
}
