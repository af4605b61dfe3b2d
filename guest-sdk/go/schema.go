package tool

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Schema is JSON Schema (2020-12) of a struct, as text. A field's name is that of
// its `json` tag, its description the tag `desc`. A field is optional where it is a
// pointer, has `omitempty`, or a tag `default`, which is JSON. The tags `minimum`,
// `maximum` and `enum` (values parted by commas) narrow it.
func Schema[A any]() string {
	written, err := text(schemaOf(reflect.TypeFor[A]()))
	if err != nil {
		panic(err)
	}
	return written
}

func schemaOf(kind reflect.Type) map[string]any {
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
	case reflect.Slice, reflect.Array:
		return map[string]any{"type": "array", "items": schemaOf(kind.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(kind.Elem())}
	case reflect.Pointer:
		return schemaOf(kind.Elem())
	case reflect.Struct:
		return schemaOfStruct(kind)
	case reflect.Interface:
		return map[string]any{}
	default:
		panic(fmt.Sprintf("there is no schema for %v", kind))
	}
}

func schemaOfStruct(kind reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for at := range kind.NumField() {
		field := kind.Field(at)
		name, isOptional := nameOf(field)
		if name == "" {
			continue
		}
		properties[name] = schemaOfField(field)
		if !isOptional {
			required = append(required, name)
		}
	}
	return map[string]any{
		"type":                 "object",
		"properties":           properties,
		"required":             required,
		"additionalProperties": false,
	}
}

func schemaOfField(field reflect.StructField) map[string]any {
	schema := schemaOf(field.Type)
	if words := field.Tag.Get("desc"); words != "" {
		schema["description"] = words
	}
	for _, keyword := range []string{"minimum", "maximum", "default"} {
		if value, is := field.Tag.Lookup(keyword); is {
			schema[keyword] = json.RawMessage(value)
		}
	}
	if values := field.Tag.Get("enum"); values != "" {
		schema["enum"] = strings.Split(values, ",")
	}
	return schema
}

// nameOf is empty for fields that are no arguments.
func nameOf(field reflect.StructField) (name string, isOptional bool) {
	if !field.IsExported() || field.Tag.Get("json") == "-" {
		return "", false
	}
	name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	if name == "" {
		name = field.Name
	}
	_, hasDefault := field.Tag.Lookup("default")
	return name, hasDefault || strings.Contains(options, "omitempty") || field.Type.Kind() == reflect.Pointer
}

// setDefaults fills a struct with what its tags `default` say.
func setDefaults(args any) {
	value := reflect.ValueOf(args).Elem()
	if value.Kind() != reflect.Struct {
		return
	}
	for at := range value.NumField() {
		stated, is := value.Type().Field(at).Tag.Lookup("default")
		if !is {
			continue
		}
		if err := json.Unmarshal([]byte(stated), value.Field(at).Addr().Interface()); err != nil {
			panic(fmt.Sprintf("the default of %s: %v", value.Type().Field(at).Name, err))
		}
	}
}
