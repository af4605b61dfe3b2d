package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
)

// S10: a call's own writes are visible to its reads, by each reducer.
func TestOwnWritesAreVisible(t *testing.T) {
	served = Component{ID: "one", State: []Key{
		{Name: "replaced"}, {Name: "merged", Reducer: MergePatch}, {Name: "appended", Reducer: Append},
		{Name: "added", Reducer: Add}, {Name: "united", Reducer: Union}, {Name: "greatest", Reducer: Max},
	}}
	for _, one := range []struct{ name, value, update, after string }{
		{"replaced", `1`, `[2]`, `[2]`},
		{"merged", `{"a":{"b":1,"c":2},"d":3}`, `{"a":{"b":null,"e":4},"d":[5]}`, `{"a":{"c":2,"e":4},"d":[5]}`},
		{"appended", `[1]`, `[2]`, `[1,[2]]`},
		{"added", `1`, `-3`, `-2`},
		{"added", `9007199254740993`, `1`, `9007199254740994`},
		{"added", `1`, `0.5`, `1.5`},
		{"united", `["b"]`, `["c","b","a"]`, `["a","b","c"]`},
		{"greatest", `3`, `2`, `3`},
		{"greatest", `3`, `3.5`, `3.5`},
		{"other.key", `"old"`, `"new"`, `"new"`},
	} {
		call := &Call{componentID: "one", Snapshot: map[string]string{}}
		call.Snapshot[call.key(one.name)] = one.value
		if err := call.Update(one.name, json.RawMessage(one.update)); err != nil {
			t.Fatal(err)
		}
		var read json.RawMessage
		if known, err := call.Read(one.name, &read); !known || err != nil || string(read) != one.after {
			t.Errorf("%s: %s, %v", one.name, read, err)
		}
	}
}

// A key without a value has its initial one.
func TestInitialValuesAreRead(t *testing.T) {
	read := func(call *Call, _ struct{}) (any, error) {
		var before, after, secret int
		_, _ = call.Read("count", &before)
		_ = call.Update("count", 2)
		_, err := call.Read("count", &after)
		known, _ := call.Read("secret", &secret)
		return []any{before, after, known}, err
	}
	component := Component{ID: "one", Tools: []Tool{New("read", "", read)}, State: []Key{
		{Name: "count", Initial: 3, Reducer: Add}, {Name: "secret", Initial: 1, Access: WriteOnly},
	}}
	for _, one := range []struct {
		snapshot map[string]string
		after    []any
	}{
		{nil, []any{3, 5, false}},
		{map[string]string{"one.count": `7`}, []any{7, 9, false}},
	} {
		answer, err := Run(component, &Call{ToolName: "read", Snapshot: one.snapshot}, "{}")
		if err != nil || !reflect.DeepEqual(answer.Data, one.after) {
			t.Error(answer.Data, err)
		}
	}
}

// A request that was not granted ends the call as denied, unless the tool handles it.
func TestRequestsThatWereNotGrantedAreRefusals(t *testing.T) {
	for _, one := range []struct {
		err  error
		kind uint8
	}{
		{fmt.Errorf("list: %w", &HTTPError{"denied", "Not granted."}), denied},
		{&HTTPError{"unreachable", "No."}, internal},
		{NotFound("No."), notFound},
		{errors.New("a bug"), internal},
	} {
		if refusal := refusalOf(one.err); refusal.kind != one.kind {
			t.Errorf("%v: %v", one.err, refusal)
		}
	}
}

// K14: a tool reads settings and runs child agents.
func TestSettingsAndChildren(t *testing.T) {
	Settings = map[string]string{"api": "https://a.test"}
	call := &Call{}
	if value, is := call.Setting("api"); !is || value != "https://a.test" {
		t.Error(value)
	}
	if _, is := call.Setting("other"); is {
		t.Error("there is no such setting")
	}
	ChildOutcomes = []ChildOutcome{{Response: "Done."}, {Status: ChildFailed, Reason: "No tokens"}}
	asked := ChildRun{Agent: "helper", Messages: []ChildMessage{{Text: "Do it."}}}
	outcome, err := call.RunChild(asked)
	if err != nil || outcome.Response != "Done." || outcome.Completed() != nil {
		t.Error(outcome, err)
	}
	outcome, _ = call.RunChild(asked)
	if err := outcome.Completed(); err == nil || err.Error() != "The child agent failed: No tokens." {
		t.Error(err)
	}
	var refusal Refusal
	if _, err = call.RunChild(asked); !errors.As(err, &refusal) || refusal.kind != notFound {
		t.Error(err)
	}
	if !reflect.DeepEqual(Children, []ChildRun{asked, asked, asked}) {
		t.Error(Children)
	}
}
