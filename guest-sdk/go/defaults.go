package tool

import (
	"encoding/json"
	"reflect"
	"sync"
)

// Decode parses arguments as a tool's function receives them: absent values get the
// defaults of the `default` tags, also within structs, lists and maps. It is meant
// for Validate.
func Decode[A any](args json.RawMessage) (A, error) {
	var decoded A
	filled, err := fill(reflect.TypeFor[A](), args)
	if err == nil {
		err = json.Unmarshal(filled, &decoded)
	}
	if err != nil {
		return decoded, InvalidArguments(err.Error())
	}
	return decoded, nil
}

// fill adds the defaults of a type that are absent from JSON. It works on JSON
// because a decoded value does not show which parts were absent.
func fill(kind reflect.Type, given json.RawMessage) (json.RawMessage, error) {
	if !hasDefaults(kind) || string(given) == "null" {
		return given, nil
	}
	switch kind.Kind() {
	case reflect.Pointer:
		return fill(kind.Elem(), given)
	case reflect.Struct:
		return fillStruct(kind, given)
	case reflect.Map:
		var values map[string]json.RawMessage
		return filled(given, &values, func() (err error) {
			for name := range values {
				if values[name], err = fill(kind.Elem(), values[name]); err != nil {
					return err
				}
			}
			return nil
		})
	default:
		var items []json.RawMessage
		return filled(given, &items, func() (err error) {
			for at := range items {
				if items[at], err = fill(kind.Elem(), items[at]); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

func fillStruct(kind reflect.Type, given json.RawMessage) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	return filled(given, &members, func() (err error) {
		for _, field := range fieldsOf(kind) {
			value, is := members[field.name]
			if !is {
				stated, hasDefault := field.Tag.Lookup("default")
				if !hasDefault {
					continue
				}
				value = json.RawMessage(stated)
			}
			if members[field.name], err = fill(field.Type, value); err != nil {
				return err
			}
		}
		return nil
	})
}

// filled splits JSON into its parts, fills them and joins them again.
func filled(given json.RawMessage, parts any, each func() error) (json.RawMessage, error) {
	if err := json.Unmarshal(given, parts); err != nil {
		return nil, err
	}
	if err := each(); err != nil {
		return nil, err
	}
	written, err := text(parts)
	return json.RawMessage(written), err
}

// hasDefaults returns whether a type contains a `default` tag at any depth.
func hasDefaults(kind reflect.Type) bool {
	if known, is := defaultsByType.Load(kind); is {
		return known.(bool)
	}
	found := findDefault(kind, map[reflect.Type]bool{})
	defaultsByType.Store(kind, found)
	return found
}

var defaultsByType sync.Map

func findDefault(kind reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[kind] || reflect.PointerTo(kind).Implements(unmarshaler) {
		return false
	}
	seen[kind] = true
	switch kind.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return findDefault(kind.Elem(), seen)
	case reflect.Struct:
		for _, field := range fieldsOf(kind) {
			if _, is := field.Tag.Lookup("default"); is || findDefault(field.Type, seen) {
				return true
			}
		}
	}
	return false
}
