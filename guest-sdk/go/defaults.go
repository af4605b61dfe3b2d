package tool

import (
	"encoding/json"
	"reflect"
	"sync"
)

// Decode reads arguments as a tool's function gets them: with what the tags `default`
// say where they are absent, within structs, lists and maps too. It is for Validate.
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

// fill adds the defaults that are absent from JSON of a type. Before it is decoded, and
// not after: a decoded value does not say what was absent from it.
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

// filled takes JSON apart, has its parts filled, and puts it together again.
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

// hasDefaults says whether a tag `default` is anywhere below a type.
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
