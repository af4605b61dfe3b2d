// Package export_parcels_desk_desk is named by the generator of its bindings.
package export_parcels_desk_desk

import (
	"fmt"
	"sort"

	types "go.bytecodealliance.org/pkg/wit/types"

	. "wit_component/parcels_desk_desk"
)

const most = 1_000_000

func Total(parcels []Parcel) types.Result[uint64, Refusal] {
	var grams uint64
	for _, parcel := range parcels {
		grams += parcel.Grams
	}
	switch {
	case len(parcels) == 0:
		return types.Err[uint64](MakeRefusalEmpty())
	case grams > most:
		return types.Err[uint64](MakeRefusalTooHeavy(grams))
	}
	return types.Ok[uint64, Refusal](grams)
}

func Heaviest(parcels []Parcel) types.Option[Parcel] {
	if len(parcels) == 0 {
		return types.None[Parcel]()
	}
	return types.Some(Sort(parcels, true)[0])
}

func Sort(parcels []Parcel, heavyFirst bool) []Parcel {
	sort.SliceStable(parcels, func(a, b int) bool {
		if heavyFirst {
			a, b = b, a
		}
		return parcels[a].Grams < parcels[b].Grams
	})
	return parcels
}

func Restamp(stamp Stamp) Stamp {
	switch stamp.Tag() {
	case Stamp_Plain:
		return MakeStampDated(types.Tuple2[uint16, uint8]{F0: 1840, F1: 5})
	case Stamp_Dated:
		date := stamp.Dated()
		return MakeStampWorded(fmt.Sprintf("%d/%d", date.F0, date.F1))
	}
	return MakeStampWorded(stamp.Worded() + stamp.Worded())
}

func Spell(text string) []rune { return []rune(text) }

func Price(grams uint32, rate float32) float64 { return float64(grams) * float64(rate) }

func Init(label string, size Size) Parcel {
	return Parcel{Label: label, Mark: types.None[rune](), Size: size, Care: Care_Upright}
}
