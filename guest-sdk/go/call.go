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
	// The call that started this run by delegation; empty if there is none.
	ParentRunID, ParentThreadID, ParentCallID string
	// AgentDescription is the calling agent's purpose; empty if unknown.
	AgentDescription string
	// Delegates are the agents that it may delegate to.
	Delegates []string
	// Revision is the revision of the snapshot that Read reads.
	Revision uint64
	// DeadlineMS is the remaining time of this attempt in milliseconds.
	DeadlineMS uint32
	// Attempt is the number of this attempt, counted from 1.
	Attempt uint32
	// Resume is a person's answer to this tool's own question, nil if it asked none.
	Resume *Resumption
	// Snapshot holds the readable keys: full names and JSON text.
	Snapshot map[string]string

	componentID string
	mutations   []mutation
	actions     []action
}

// A Resumption is a person's decision that resumes the call.
type Resumption struct {
	SuspensionID, Action, Message, DecisionID string
	// Value is the person's answer; it fits the ticket's schema.
	Value       json.RawMessage
	Reason      string
	DecidedAtMS uint64
}

type mutation struct{ key, update string }

type action struct {
	kind  uint8
	value string
}

// Read decodes the value of a key when the call began, with this call's own updates. It
// returns whether the key has a value. For updates to another component's key, its Key
// has to state its Reducer if that is not Replace.
func (c *Call) Read(name string, into any) (bool, error) {
	key := c.key(name)
	value, known := c.Snapshot[key]
	if !known {
		value, known = readState(key)
	}
	for _, mutation := range c.mutations {
		if mutation.key != key {
			continue
		}
		var err error
		if value, err = reduced(c.reducer(key), value, mutation.update); err != nil {
			return false, err
		}
		known = true
	}
	if !known {
		return false, nil
	}
	return true, json.Unmarshal([]byte(value), into)
}

// begin adds the initial values of own keys that are read and have no value.
func (c *Call) begin(keys []Key) error {
	if c.Snapshot == nil {
		c.Snapshot = map[string]string{}
	}
	for _, key := range keys {
		name := c.key(key.Name)
		if _, known := c.Snapshot[name]; known || !key.isOwn() || !key.isRead() {
			continue
		}
		initial, err := text(key.Initial)
		if err != nil {
			return err
		}
		c.Snapshot[name] = initial
	}
	return nil
}

func (c *Call) reducer(key string) Reducer {
	for _, declared := range served.State {
		if c.key(declared.Name) == key {
			return declared.Reducer
		}
	}
	return Replace
}

// Setting returns a setting that an operator granted, and whether there is one.
func (c *Call) Setting(name string) (string, bool) { return setting(name) }

// Update adds an update for the key's reducer; it commits with the answer, or not at
// all.
func (c *Call) Update(name string, update any) error {
	written, err := text(update)
	if err != nil {
		return err
	}
	c.mutations = append(c.mutations, mutation{c.key(name), written})
	return nil
}

// Updates lists the changes so far, for tests: full key and JSON text.
func (c *Call) Updates() [][2]string {
	updates := make([][2]string, len(c.mutations))
	for at, mutation := range c.mutations {
		updates[at] = [2]string{mutation.key, mutation.update}
	}
	return updates
}

// TransferTo hands the thread over to another agent; it needs a grant.
func (c *Call) TransferTo(agentID string) { c.actions = append(c.actions, action{0, agentID}) }

// Escalate ends the enclosing loop agent; it needs a grant.
func (c *Call) Escalate() { c.actions = append(c.actions, action{kind: 1}) }

// AddContext adds a note that the model sees on its next turn; it needs a grant.
func (c *Call) AddContext(note string) { c.actions = append(c.actions, action{2, note}) }

// A Progress is the phase of a call.
type Progress uint8

// The phases of a call.
const (
	Pending Progress = iota
	Running
	Done
	Broken // failed, in the contract's words
	Cancelled
)

// Progress reports the progress of the call from 0 to 1, or math.NaN() if it is
// unknown. An empty message is omitted.
func (c *Call) Progress(status Progress, fraction float64, message string) {
	reportProgress(status, fraction, message)
}

// Activity replaces the current activity of this kind that clients show.
func (c *Call) Activity(kind, content string) { reportActivity(kind, content) }

// ActivityDelta changes the current activity of this kind by a JSON Patch (RFC 6902).
func (c *Call) ActivityDelta(kind string, patch any) error {
	written, err := text(patch)
	if err != nil {
		return err
	}
	reportActivityDelta(kind, written)
	return nil
}

// StreamOutput sends a piece of output that may be shown before the call ends.
func (c *Call) StreamOutput(delta string) { streamOutput(delta) }

// Log writes a log line for the operator; the model never sees it.
func (c *Call) Log(level Level, message string) { log(level, message) }

// A Level is the level of a log line.
type Level uint8

// The levels.
const (
	LevelTrace Level = iota
	LevelDebug
	LevelInfo
	LevelWarn
	LevelError
)

// IsCancelled returns whether the run is being cancelled, so that the tool can stop
// early.
func (c *Call) IsCancelled() bool { return isCancelled() }

func (c *Call) key(name string) string {
	if strings.Contains(name, ".") {
		return name
	}
	return c.componentID + "." + name
}
