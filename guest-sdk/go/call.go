package tool

import (
	"encoding/json"
	"strings"
)

// A Call is the call in progress.
type Call struct {
	ID, ToolName string
	RunID        string
	ThreadID     string
	AgentID      string
	// Of the call that had another agent run this one; empty where none did.
	ParentRunID, ParentThreadID, ParentCallID string
	// AgentDescription is what the calling agent is for; empty where nobody said.
	AgentDescription string
	// Delegates are the agents that it may hand work to.
	Delegates []string
	// Revision is that of the snapshot which Read reads.
	Revision uint64
	// DeadlineMS is how many milliseconds this attempt may still use.
	DeadlineMS uint32
	// Attempt is 1 for the first.
	Attempt uint32
	// Resume is set where a suspended call goes on.
	Resume *Resumption
	// Snapshot holds the readable keys, whole names and JSON text.
	Snapshot map[string]string

	componentID string
	mutations   []mutation
	actions     []action
}

// A Resumption is a person's decision that the call goes on.
type Resumption struct {
	SuspensionID, Action, Message, DecisionID string
	// Value is what the person answered; it fits the ticket's schema.
	Value       json.RawMessage
	Reason      string
	DecidedAtMS uint64
}

type mutation struct{ key, update string }

type action struct {
	kind  uint8
	value string
}

// Read decodes a key as it stood when the call began; what Update changed does not
// show. It says whether the key has a value.
func (c *Call) Read(name string, into any) (bool, error) {
	key := c.key(name)
	value, known := c.Snapshot[key]
	if !known {
		value, known = readState(key)
	}
	if !known {
		return false, nil
	}
	return true, json.Unmarshal([]byte(value), into)
}

// Update is an update for the key's reducer; it commits with the answer, or not at
// all.
func (c *Call) Update(name string, update any) error {
	written, err := text(update)
	if err != nil {
		return err
	}
	c.mutations = append(c.mutations, mutation{c.key(name), written})
	return nil
}

// Updates lists what the call changed so far, for tests: whole key and JSON text.
func (c *Call) Updates() [][2]string {
	updates := make([][2]string, len(c.mutations))
	for at, mutation := range c.mutations {
		updates[at] = [2]string{mutation.key, mutation.update}
	}
	return updates
}

// TransferTo hands the thread to another agent; it needs a grant.
func (c *Call) TransferTo(agentID string) { c.actions = append(c.actions, action{0, agentID}) }

// Escalate ends the enclosing loop agent; it needs a grant.
func (c *Call) Escalate() { c.actions = append(c.actions, action{kind: 1}) }

// AddContext leaves a note that the model sees at its next turn; it needs a grant.
func (c *Call) AddContext(note string) { c.actions = append(c.actions, action{2, note}) }

// A Progress says where the call stands.
type Progress uint8

// Where a call stands.
const (
	Pending Progress = iota
	Running
	Done
	Broken // failed, in the contract's words
	Cancelled
)

// Progress tells how far the call is, from 0 to 1: math.NaN() where nobody knows. An
// empty message is none.
func (c *Call) Progress(status Progress, fraction float64, message string) {
	reportProgress(status, fraction, message)
}

// Activity replaces what a client shows as what the tool is doing.
func (c *Call) Activity(kind, content string) { reportActivity(kind, content) }

// ActivityDelta changes the activity of this kind by a JSON Patch (RFC 6902).
func (c *Call) ActivityDelta(kind string, patch any) error {
	written, err := text(patch)
	if err != nil {
		return err
	}
	reportActivityDelta(kind, written)
	return nil
}

// StreamOutput is a piece of output that may be shown before the call ends.
func (c *Call) StreamOutput(delta string) { streamOutput(delta) }

// Log writes a line for the operator; the model never sees it.
func (c *Call) Log(level Level, message string) { log(level, message) }

// A Level is how much a line for the operator matters.
type Level uint8

// The levels.
const (
	LevelTrace Level = iota
	LevelDebug
	LevelInfo
	LevelWarn
	LevelError
)

// IsCancelled says whether the run is being cancelled: the moment to stop early.
func (c *Call) IsCancelled() bool { return isCancelled() }

func (c *Call) key(name string) string {
	if strings.Contains(name, ".") {
		return name
	}
	return c.componentID + "." + name
}
