package tool

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// A field is a struct's field as encoding/json reads it.
type field struct {
	reflect.StructField
	name    string
	options string
	depth   int
}

func (f field) isOptional() bool {
	_, hasDefault := f.Tag.Lookup("default")
	return hasDefault || f.has("omitempty") || f.has("omitzero") || f.Type.Kind() == reflect.Pointer
}

func (f field) has(option string) bool {
	return strings.Contains(","+f.options+",", ","+option+",")
}

func (f field) isNamed() bool {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name != ""
}

// fieldsOf lists a struct's fields as encoding/json does: fields of embedded structs
// count as its own. Of several with one name the outermost counts, or the one whose
// tag names it; if that is ambiguous, none does.
func fieldsOf(kind reflect.Type) []field {
	if known, is := fieldsByType.Load(kind); is {
		return known.([]field)
	}
	var all []field
	collect(kind, 0, map[reflect.Type]bool{}, &all)
	var fields []field
	for at := range all {
		if counts(all, at) {
			fields = append(fields, all[at])
		}
	}
	fieldsByType.Store(kind, fields)
	return fields
}

// fieldsByType caches them: a list of many structs needs them for each element.
var fieldsByType sync.Map

func counts(all []field, at int) bool {
	f := all[at]
	for otherAt, other := range all {
		if other.name != f.name || otherAt == at {
			continue
		}
		if other.depth < f.depth || other.depth == f.depth && (other.isNamed() || !f.isNamed()) {
			return false
		}
	}
	return true
}

func collect(kind reflect.Type, depth int, around map[reflect.Type]bool, into *[]field) {
	if around[kind] {
		return
	}
	around[kind] = true
	defer delete(around, kind)
	for at := range kind.NumField() {
		of := kind.Field(at)
		tag := of.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		embedded := of.Type
		if of.Anonymous && embedded.Kind() == reflect.Pointer {
			embedded = embedded.Elem()
		}
		isFlattened := of.Anonymous && name == "" && embedded.Kind() == reflect.Struct
		switch {
		case tag == "-":
		case isFlattened:
			collect(embedded, depth+1, around, into)
		case of.IsExported():
			if name == "" {
				name = of.Name
			}
			found := field{of, name, options, depth}
			if found.has("string") {
				panic(fmt.Sprintf("the field %s has the option `string`, by which a model would have to write it as text; leave it out", of.Name))
			}
			*into = append(*into, found)
		}
	}
}
