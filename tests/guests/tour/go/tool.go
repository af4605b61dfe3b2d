// The tour in Go; see the README beside the languages.
package main

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"strings"

	"tollgate.dev/tool"
)

const (
	aString   = `{"type":"string"}`
	anInteger = `{"type":"integer"}`
	listed    = `{"type":"array","items":{"type":"string"}}`
	integers  = `{"type":"object","additionalProperties":{"type":"integer"}}`
)

var component = tool.Component{
	ID:      "tour-go",
	Version: "0.1.0",
	State: []tool.Key{
		lasting("replaced", "nothing", tool.Replace, aString),
		lasting("merged", map[string]int{}, tool.MergePatch, integers),
		lasting("appended", []string{}, tool.Append, listed),
		lasting("added", 0, tool.Add, anInteger),
		lasting("united", []string{}, tool.Union, listed),
		lasting("greatest", 0, tool.Max, anInteger),
		{Name: "passing", Initial: "nobody", Schema: aString},
		lasting("large", "", tool.Replace, aString),
		{Name: "shelf.label"},
	},
	Tools: []tool.Tool{describe()},
}

func lasting(name string, initial any, reducer tool.Reducer, schema string) tool.Key {
	return tool.Key{Name: name, Initial: initial, Reducer: reducer, Thread: true, Persistent: true, Schema: schema}
}

func describe() tool.Tool {
	retries := uint32(1)
	described := tool.New("tour_go", "Exercises what the contract offers.", tour)
	described.Category = "test"
	described.TimeoutMS = 4000
	described.MaxRetries = &retries
	described.Idempotent = true
	described.Validate = isAllowed
	return described
}

func init() { tool.Serve(component) }

func main() {}

type args struct {
	what
	How    *string        `json:"how" desc:"Which way to do it."`
	Text   string         `json:"text" desc:"A text." default:"\"plain\""`
	Count  int            `json:"count" desc:"A number of things." default:"3" minimum:"0" maximum:"1000"`
	Ratio  float64        `json:"ratio" desc:"A part of a whole." default:"0.5"`
	Flag   bool           `json:"flag" desc:"Yes or no." default:"true"`
	Words  []string       `json:"words" desc:"Some words." default:"[]"`
	Size   int            `json:"size" desc:"A size." default:"2" enum:"1,2,4"`
	Place  *place         `json:"place" desc:"A place."`
	Scores map[string]int `json:"scores" desc:"Numbers by name." default:"{}"`
}

// Embedded, its field is one of the arguments.
type what struct {
	What string `json:"what" desc:"The action to take." enum:"echo,context,report,reduce,fill,read,trespass,act,suspend,fail,error,message,big,cancel,reread,setting,child,attach,file"`
}

type place struct {
	Name    string  `json:"name" desc:"The name of the place."`
	Zip     *string `json:"zip" desc:"Its code."`
	Country string  `json:"country" desc:"The country of the place." default:"\"CH\""`
}

func isAllowed(given json.RawMessage) error {
	args, err := tool.Decode[args](given)
	if err == nil && args.Text == "forbidden" {
		return tool.InvalidArguments("The text may not be forbidden.")
	}
	return err
}

func tour(call *tool.Call, args args) (any, error) {
	how := ""
	if args.How != nil {
		how = *args.How
	}
	switch args.What {
	case "echo":
		return args, nil
	case "context":
		return callerOf(call), nil
	case "report":
		return report(call)
	case "reduce":
		return reduce(call, args)
	case "fill":
		return "filled", call.Update("large", large(args.Count))
	case "read":
		return read(call)
	case "trespass":
		return "trespassed", call.Update("shelf.label", args.Text)
	case "act":
		return act(call, how, args.Text), nil
	case "suspend":
		if call.Resume != nil {
			return resumed(args.Text, call.Resume), nil
		}
		return suspend(how, args), nil
	case "fail":
		return fail(how, args.Text)
	case "error":
		codes := map[string]string{"coded": "full", "plain": ""}
		if code, is := codes[how]; is {
			return tool.Error(code, args.Text), nil
		}
		return "unknown", nil
	case "message":
		return tool.SuccessWithMessage(map[string]int{"count": args.Count}, args.Text), nil
	case "big":
		return large(args.Count), nil
	case "reread":
		if _, err := reduce(call, args); err != nil {
			return nil, err
		}
		return read(call)
	case "setting":
		if value, is := call.Setting(args.Text); is {
			return value, nil
		}
		return nil, nil
	case "child":
		return runChild(call, how, args.Text)
	case "attach":
		return "attached", errors.Join(
			call.Attach("image/png", []byte("\x89PNG")),
			call.AttachFile("tour:///notes.txt", "text/plain", []byte(args.Text)),
			call.AttachLink("https://example.org/tour", args.Text, "A tour."),
		)
	case "file":
		return throughFile(args.Text)
	default:
		return cancel(call), nil
	}
}

type child struct {
	Response string `json:"response"`
	Streamed string `json:"streamed"`
	Steps    uint32 `json:"steps"`
}

func runChild(call *tool.Call, how, text string) (any, error) {
	outcome, err := call.RunChild(tool.ChildRun{Agent: text, Messages: []tool.ChildMessage{{Text: how}}})
	if err == nil {
		err = outcome.Completed()
	}
	return child{outcome.Response, outcome.Streamed, outcome.Steps}, err
}

func throughFile(text string) (any, error) {
	const file = "/files/go.txt"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return nil, err
	}
	read, err := os.ReadFile(file)
	return string(read), errors.Join(err, os.Remove(file))
}

func large(kilobytes int) string { return strings.Repeat("x", 1024*kilobytes) }

type caller struct {
	Tool     string `json:"tool"`
	Revision uint64 `json:"revision"`
	Timely   bool   `json:"timely"`
	Agent    agent  `json:"agent"`
	Parent   parent `json:"parent"`
}

type agent struct {
	ID          string   `json:"id"`
	Description *string  `json:"description"`
	Delegates   []string `json:"delegates"`
}

type parent struct {
	Run    *string `json:"run"`
	Thread *string `json:"thread"`
	Call   *string `json:"call"`
}

func callerOf(call *tool.Call) caller {
	return caller{
		Tool:     call.ToolName,
		Revision: call.Revision,
		Timely:   1 <= call.DeadlineMS && call.DeadlineMS <= 4000,
		Agent:    agent{call.AgentID, orNull(call.AgentDescription), append([]string{}, call.Delegates...)},
		Parent:   parent{orNull(call.ParentRunID), orNull(call.ParentThreadID), orNull(call.ParentCallID)},
	}
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

type change struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value int    `json:"value"`
}

func report(call *tool.Call) (any, error) {
	call.Activity("tour", "first stop")
	if err := call.ActivityDelta("tour", []change{{"add", "/stops", 1}}); err != nil {
		return nil, err
	}
	call.Progress(tool.Pending, math.NaN(), "")
	call.Progress(tool.Running, 0.25, "under way")
	call.Progress(tool.Running, 0.5, "")
	call.Progress(tool.Broken, math.NaN(), "broken")
	call.Progress(tool.Cancelled, 0.75, "stopped")
	call.Progress(tool.Done, 1, "there")
	call.StreamOutput("one ")
	call.StreamOutput("two\n")
	call.Log(tool.LevelTrace, "trace")
	call.Log(tool.LevelDebug, "debug")
	call.Log(tool.LevelInfo, "info")
	call.Log(tool.LevelWarn, "warn")
	call.Log(tool.LevelError, "error")
	return "reported", nil
}

func reduce(call *tool.Call, args args) (any, error) {
	for _, update := range []struct {
		name  string
		value any
	}{
		{"replaced", args.Text},
		{"merged", map[string]any{args.Text: args.Count, "gone": nil}},
		{"appended", args.Text},
		{"added", args.Count},
		{"united", args.Words},
		{"greatest", args.Count},
		{"passing", args.Text},
	} {
		if err := call.Update(update.name, update.value); err != nil {
			return nil, err
		}
	}
	return "reduced", nil
}

type values struct {
	Replaced string         `json:"replaced"`
	Merged   map[string]int `json:"merged"`
	Appended []string       `json:"appended"`
	Added    int            `json:"added"`
	United   []string       `json:"united"`
	Greatest int            `json:"greatest"`
	Passing  string         `json:"passing"`
	Large    int            `json:"large"`
	Label    *string        `json:"label"`
}

func read(call *tool.Call) (any, error) {
	var values values
	var large string
	for name, into := range map[string]any{
		"replaced": &values.Replaced, "merged": &values.Merged, "appended": &values.Appended,
		"added": &values.Added, "united": &values.United, "greatest": &values.Greatest,
		"passing": &values.Passing, "large": &large, "shelf.label": &values.Label,
	} {
		if _, err := call.Read(name, into); err != nil {
			return nil, err
		}
	}
	values.Large = len(large)
	return values, nil
}

func act(call *tool.Call, how, text string) string {
	switch how {
	case "add-context":
		call.AddContext(text)
	case "transfer":
		call.TransferTo(text)
	case "escalate":
		call.Escalate()
	default:
		return "unknown"
	}
	return "acted"
}

type asked struct {
	Words []string `json:"words"`
	Count int      `json:"count"`
}

func suspend(how string, args args) any {
	modes := map[string]tool.ResumeMode{
		"replay-tool-call":            tool.ReplayToolCall,
		"use-decision-as-tool-result": tool.UseDecisionAsToolResult,
		"pass-decision-to-tool":       tool.PassDecisionToTool,
	}
	mode, is := modes[how]
	switch {
	case how == "plain":
		return tool.Ask("Go on with " + args.Text + "?")
	case !is:
		return "unknown"
	}
	return tool.Suspend(tool.Ticket{
		Action:         "choose",
		Message:        "Which one, " + args.Text + "?",
		Parameters:     asked{args.Words, args.Count},
		ResponseSchema: `{"type":["object","string","boolean"]}`,
		ResumeMode:     mode,
	})
}

type resumption struct {
	Text       string          `json:"text"`
	Action     string          `json:"action"`
	Message    string          `json:"message"`
	Value      json.RawMessage `json:"value"`
	Reason     *string         `json:"reason"`
	Decision   string          `json:"decision"`
	Suspension bool            `json:"suspension"`
	Decided    bool            `json:"decided"`
}

func resumed(text string, resume *tool.Resumption) resumption {
	return resumption{
		Text: text, Action: resume.Action, Message: resume.Message, Value: resume.Value,
		Reason: orNull(resume.Reason), Decision: resume.DecisionID,
		Suspension: resume.SuspensionID != "", Decided: resume.DecidedAtMS > 0,
	}
}

func fail(how, text string) (any, error) {
	kinds := map[string]func(string) error{
		"invalid-arguments": tool.InvalidArguments,
		"execution-failed":  tool.Failed,
		"denied":            tool.Denied,
		"not-found":         tool.NotFound,
		"internal":          tool.Internal,
	}
	if kind, is := kinds[how]; is {
		return nil, kind(text)
	}
	return "unknown", nil
}

func cancel(call *tool.Call) tool.Answer {
	call.Progress(tool.Running, 0, "waiting")
	for !call.IsCancelled() {
	}
	call.Log(tool.LevelInfo, "saw the cancellation")
	return tool.Error("cancelled", "The run was cancelled.")
}
