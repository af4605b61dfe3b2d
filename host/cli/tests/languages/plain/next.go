// Package export_wit_world is named by the generator of its bindings.
package export_wit_world

func Next(number int64) int64 { return number + 1 }
