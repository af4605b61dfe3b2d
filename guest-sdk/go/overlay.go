package tool

import (
	"bytes"
	"encoding/json"
	"slices"
)

// reduced returns the value of a key after an update, both as JSON: the reducer's effect,
// the same as the host's. The host decides when the call commits.
func reduced(reducer Reducer, value, update string) (string, error) {
	switch reducer {
	case MergePatch:
		return joined(value, update, mergePatch)
	case Append:
		return joined(value, update, func(value, update any) any { return append(listOf(value), update) })
	case Add:
		return joined(value, update, add)
	case Union:
		return joined(value, update, union)
	case Max:
		return joined(value, update, greater)
	default:
		return update, nil
	}
}

func joined(value, update string, join func(value, update any) any) (string, error) {
	before, err := decoded(value)
	if err != nil {
		return "", err
	}
	change, err := decoded(update)
	if err != nil {
		return "", err
	}
	return text(join(before, change))
}

// decoded keeps numbers as they are written.
func decoded(written string) (value any, err error) {
	if written == "" {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(written)))
	decoder.UseNumber()
	err = decoder.Decode(&value)
	return value, err
}

func mergePatch(value, patch any) any {
	changes, is := patch.(map[string]any)
	if !is {
		return patch
	}
	members, is := value.(map[string]any)
	if !is {
		members = map[string]any{}
	}
	for name, change := range changes {
		if change == nil {
			delete(members, name)
		} else {
			members[name] = mergePatch(members[name], change)
		}
	}
	return members
}

func listOf(value any) []any {
	list, _ := value.([]any)
	return list
}

// add keeps whole numbers exact.
func add(value, update any) any {
	a, b := numberOf(value), numberOf(update)
	x, errX := a.Int64()
	y, errY := b.Int64()
	if sum := x + y; errX == nil && errY == nil && (sum > x) == (y > 0) {
		return sum
	}
	return floatOf(a) + floatOf(b)
}

func greater(value, update any) any {
	a, b := numberOf(value), numberOf(update)
	x, errX := a.Int64()
	y, errY := b.Int64()
	isGreater := y > x
	if errX != nil || errY != nil {
		isGreater = floatOf(b) > floatOf(a)
	}
	if value == nil || isGreater {
		return update
	}
	return value
}

func numberOf(value any) json.Number {
	number, is := value.(json.Number)
	if !is {
		return "0"
	}
	return number
}

func floatOf(number json.Number) float64 {
	float, _ := number.Float64()
	return float
}

// union keeps a list sorted by the elements' JSON.
func union(value, update any) any {
	var texts []string
	for _, element := range append(listOf(value), listOf(update)...) {
		if written, err := text(element); err == nil {
			texts = append(texts, written)
		}
	}
	slices.Sort(texts)
	elements := []json.RawMessage{}
	for _, written := range slices.Compact(texts) {
		elements = append(elements, json.RawMessage(written))
	}
	return elements
}
