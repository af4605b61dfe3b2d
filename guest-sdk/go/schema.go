package tool

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Schema returns JSON Schema (2020-12) of a struct, as text. Its fields are those
// that encoding/json reads, including those of embedded structs, under the same
// names. The tag `desc` describes a field. A field is optional if it is a pointer,
// has `omitempty` or `omitzero`, or a tag `default`, which is JSON. The tags
// `minimum`, `maximum` and `enum` (comma-separated values) narrow it. A recursive
// type is a reference to a definition.
//
// It panics at a type or tag that encoding/json or the schema cannot represent, and
// names it.
func Schema[A any]() string {
	written, err := text(document(reflect.TypeFor[A]()))
	if err != nil {
		panic(err)
	}
	return written
}

// document returns the schema with the definitions that it refers to.
func document(kind reflect.Type) map[string]any {
	schemas := schemas{open: map[reflect.Type]bool{}, names: map[reflect.Type]string{}, defs: map[string]any{}}
	schema := schemas.of(kind)
	if name, recurs := schemas.names[kind]; recurs {
		// The root is inlined.
		schema = map[string]any{}
		for keyword, value := range schemas.defs[name].(map[string]any) {
			schema[keyword] = value
		}
	}
	if len(schemas.defs) > 0 {
		schema["$defs"] = schemas.defs
	}
	return schema
}

// schemas builds the schemas of one document.
type schemas struct {
	// open contains the structs that enclose the current one.
	open map[reflect.Type]bool
	// names contains the names of recursive structs, and defs their schemas.
	names map[reflect.Type]string
	defs  map[string]any
}

// Types that parse themselves.
var (
	moment          = reflect.TypeFor[time.Time]()
	number          = reflect.TypeFor[json.Number]()
	unmarshaler     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func (s *schemas) of(kind reflect.Type) map[string]any {
	switch {
	case kind == moment:
		return map[string]any{"type": "string", "format": "date-time"}
	case kind == number:
		return map[string]any{"type": "number"}
	case kind.Kind() == reflect.Pointer:
		return s.of(kind.Elem())
	case reflect.PointerTo(kind).Implements(unmarshaler):
		return map[string]any{}
	case reflect.PointerTo(kind).Implements(textUnmarshaler):
		return map[string]any{"type": "string"}
	}
	switch kind.Kind() {
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice:
		if kind.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string", "contentEncoding": "base64"}
		}
		return map[string]any{"type": "array", "items": s.of(kind.Elem())}
	case reflect.Array:
		return map[string]any{
			"type": "array", "items": s.of(kind.Elem()), "minItems": kind.Len(), "maxItems": kind.Len(),
		}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": s.of(kind.Elem())}
	case reflect.Struct:
		return s.ofStruct(kind)
	case reflect.Interface:
		return map[string]any{}
	default:
		panic(fmt.Sprintf("there is no schema for %v: JSON has nothing that it could be read from", kind))
	}
}

func (s *schemas) ofStruct(kind reflect.Type) map[string]any {
	if s.open[kind] && s.names[kind] == "" {
		s.names[kind] = s.freeName(kind.Name())
	}
	if name := s.names[kind]; name != "" {
		return map[string]any{"$ref": "#/$defs/" + name}
	}
	s.open[kind] = true
	schema := s.ofFields(kind)
	delete(s.open, kind)
	if name := s.names[kind]; name != "" {
		s.defs[name] = schema
		return map[string]any{"$ref": "#/$defs/" + name}
	}
	return schema
}

// freeName distinguishes types with the same name in several packages.
func (s *schemas) freeName(wanted string) string {
	name := wanted
	for count := 2; ; count++ {
		isTaken := false
		for _, other := range s.names {
			isTaken = isTaken || other == name
		}
		if !isTaken {
			return name
		}
		name = fmt.Sprintf("%s%d", wanted, count)
	}
}

func (s *schemas) ofFields(kind reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, field := range fieldsOf(kind) {
		properties[field.name] = s.ofField(field)
		if !field.isOptional() {
			required = append(required, field.name)
		}
	}
	return map[string]any{
		"type":                 "object",
		"properties":           properties,
		"required":             required,
		"additionalProperties": false,
	}
}

func (s *schemas) ofField(field field) map[string]any {
	schema := s.of(field.Type)
	if words := field.Tag.Get("desc"); words != "" {
		schema["description"] = words
	}
	for _, keyword := range []string{"minimum", "maximum", "default"} {
		if value, is := field.Tag.Lookup(keyword); is {
			schema[keyword] = field.json(keyword, value)
		}
	}
	if values := field.Tag.Get("enum"); values != "" {
		enum := []any{}
		for _, value := range strings.Split(values, ",") {
			if schema["type"] == "string" {
				enum = append(enum, value)
			} else {
				enum = append(enum, field.json("enum", strings.TrimSpace(value)))
			}
		}
		schema["enum"] = enum
	}
	return schema
}

// json returns the value of a tag, which has to be JSON of the field's type.
func (f field) json(tag, value string) json.RawMessage {
	if err := json.Unmarshal([]byte(value), reflect.New(f.Type).Interface()); err != nil {
		panic(fmt.Sprintf("the tag `%s:%q` of the field %s is not JSON of its type %v: %v", tag, value, f.Name, f.Type, err))
	}
	return json.RawMessage(value)
}
