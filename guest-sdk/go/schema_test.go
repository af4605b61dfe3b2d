package tool

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

type Base struct {
	Name   string `json:"name" desc:"The name of the place."`
	Hidden string `json:"hidden"`
}

type inner struct {
	Size int `json:"size" enum:"1,2,4" default:"2"`
}

type arguments struct {
	Base
	*inner
	Kind   string            `json:"kind" enum:"a,b c"`
	Share  float64           `json:"share,omitempty" enum:"0.5, 1"`
	Hidden int               `json:"hidden,omitempty"`
	Place  *inner            `json:"place"`
	Places []inner           `json:"places" default:"[{\"size\": 4}]"`
	Named  map[string]*inner `json:"named,omitempty"`
	When   time.Time         `json:"when,omitzero"`
	Any    json.RawMessage   `json:"any,omitempty"`
	Bytes  []byte            `json:"bytes,omitempty"`
	Pair   [2]bool           `json:"pair,omitempty"`
	secret string            // encoding/json does not see it either
}

func sameJSON(t *testing.T, got, wanted string) {
	t.Helper()
	var left, right any
	if err := json.Unmarshal([]byte(got), &left); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	if err := json.Unmarshal([]byte(wanted), &right); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(left, right) {
		t.Errorf("got    %s\nwanted %s", got, wanted)
	}
}

const size = `{"type": "integer", "enum": [1, 2, 4], "default": 2}`
const sized = `{"type": "object", "properties": {"size": ` + size + `}, "required": [], "additionalProperties": false}`

func TestSchemaSaysWhatEncodingJSONReads(t *testing.T) {
	sameJSON(t, Schema[arguments](), `{
		"type": "object",
		"properties": {
			"name": {"type": "string", "description": "The name of the place."},
			"size": `+size+`,
			"kind": {"type": "string", "enum": ["a", "b c"]},
			"share": {"type": "number", "enum": [0.5, 1]},
			"hidden": {"type": "integer"},
			"place": `+sized+`,
			"places": {"type": "array", "items": `+sized+`, "default": [{"size": 4}]},
			"named": {"type": "object", "additionalProperties": `+sized+`},
			"when": {"type": "string", "format": "date-time"},
			"any": {},
			"bytes": {"type": "string", "contentEncoding": "base64"},
			"pair": {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 2}
		},
		"required": ["name", "kind"],
		"additionalProperties": false
	}`)
}

func TestDefaultsAreFilledWhereverTheyAreAbsent(t *testing.T) {
	type args struct {
		Base
		Place  *inner            `json:"place"`
		Places []inner           `json:"places" default:"[{}, {\"size\": 4}]"`
		Named  map[string]inner  `json:"named,omitempty"`
		Texts  map[string]string `json:"texts" default:"{\"a\": \"<b>\"}"`
	}
	filled, err := Decode[args](json.RawMessage(`{"name": "n", "hidden": "", "place": {}, "named": {"x": {}, "y": {"size": 1}}}`))
	wanted := args{
		Base: Base{Name: "n"}, Place: &inner{2}, Places: []inner{{2}, {4}},
		Named: map[string]inner{"x": {2}, "y": {1}}, Texts: map[string]string{"a": "<b>"},
	}
	if err != nil || !reflect.DeepEqual(filled, wanted) {
		t.Errorf("%v\ngot    %+v\nwanted %+v", err, filled, wanted)
	}
	given, err := Decode[args](json.RawMessage(`{"name": "n", "hidden": "", "places": [], "texts": {"b": ""}}`))
	if err != nil || given.Place != nil || len(given.Places) != 0 || len(given.Texts) != 1 {
		t.Errorf("what is given stands in the place of a default: %v %+v", err, given)
	}
}

type node struct {
	Value    int    `json:"value" default:"7"`
	Children []node `json:"children,omitempty"`
}

type tree struct {
	Root node `json:"root"`
}

func TestATypeThatHoldsItselfIsADefinition(t *testing.T) {
	definition := `{"type": "object", "required": [], "additionalProperties": false, "properties": {
		"value": {"type": "integer", "default": 7},
		"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}`
	sameJSON(t, Schema[tree](), `{
		"type": "object", "required": ["root"], "additionalProperties": false,
		"properties": {"root": {"$ref": "#/$defs/node"}},
		"$defs": {"node": `+definition+`}}
	}`)
	sameJSON(t, Schema[node](), definition+`, "$defs": {"node": `+definition+`}}}`)
	filled, err := Decode[tree](json.RawMessage(`{"root": {"children": [{"children": [{"value": 1}]}]}}`))
	if err != nil || filled.Root.Value != 7 || filled.Root.Children[0].Children[0].Value != 1 {
		t.Errorf("%v %+v", err, filled)
	}
}

func panics(t *testing.T, wanted string, work func() string) {
	t.Helper()
	defer func() {
		t.Helper()
		if said, _ := recover().(string); !strings.Contains(said, wanted) {
			t.Errorf("said %q, wanted %q", said, wanted)
		}
	}()
	work()
}

func TestWhatNoSchemaFitsIsSaid(t *testing.T) {
	panics(t, "there is no schema for chan int", Schema[struct{ C chan int }])
	panics(t, "the option `string`", Schema[struct {
		N int `json:",string"`
	}])
	panics(t, "the tag `default:\"x\"` of the field N", Schema[struct {
		N int `json:"n" default:"x"`
	}])
	panics(t, "the tag `enum:\"b\"` of the field N", Schema[struct {
		N int `json:"n" enum:"1,b"`
	}])
}

func TestOfTwoFieldsOfOneNameNoneCountsUnlessOneIsNamed(t *testing.T) {
	type Left struct{ A, B int }
	type Right struct {
		A int
		C int `json:"B"`
	}
	sameJSON(t, Schema[struct {
		Left
		Right
	}](), `{"type": "object", "required": ["B"], "additionalProperties": false, "properties": {"B": {"type": "integer"}}}`)
}

func TestAnothersKeyIsOnlyReadUnlessMoreIsStated(t *testing.T) {
	for _, of := range []struct {
		key           Key
		read, written bool
	}{
		{Key{Name: "own"}, true, true},
		{Key{Name: "other.key"}, true, false},
		{Key{Name: "other.key", Access: ReadWrite}, true, true},
		{Key{Name: "other.key", Access: WriteOnly}, false, true},
		{Key{Name: "own", Access: ReadOnly}, true, false},
	} {
		if of.key.isRead() != of.read || of.key.isWritten() != of.written {
			t.Errorf("%+v: read %v, written %v", of.key, of.key.isRead(), of.key.isWritten())
		}
	}
}

func TestAnAnswerThatIsNoJSONIsTheToolsOwnFault(t *testing.T) {
	answers := []any{make(chan int), Suspend(Ticket{Message: "?", Parameters: make(chan int)})}
	for _, answer := range answers {
		broken := New("broken", "Answers no JSON.", func(*Call, struct{}) (any, error) { return answer, nil })
		_, err := Run(Component{Tools: []Tool{broken}}, &Call{ToolName: "broken"}, "{}")
		if err == nil || !strings.Contains(err.Error(), "the answer of broken cannot be written as JSON") {
			t.Errorf("%v", err)
		}
	}
}
