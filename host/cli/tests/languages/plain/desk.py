from typing import List, Optional

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.desk import (
    Care,
    Parcel,
    Refusal_Empty,
    Refusal_TooHeavy,
    Size,
    Stamp,
    Stamp_Dated,
    Stamp_Plain,
    Stamp_Worded,
)

MOST = 1_000_000


class Desk(exports.Desk):
    def total(self, parcels: List[Parcel]) -> int:
        if not parcels:
            raise Err(Refusal_Empty())
        grams = sum(parcel.grams for parcel in parcels)
        if grams > MOST:
            raise Err(Refusal_TooHeavy(grams))
        return grams

    def heaviest(self, parcels: List[Parcel]) -> Optional[Parcel]:
        return max(parcels, key=lambda parcel: parcel.grams, default=None)

    def sort(self, parcels: List[Parcel], heavy_first: bool) -> List[Parcel]:
        return sorted(parcels, key=lambda parcel: parcel.grams, reverse=heavy_first)

    def restamp(self, stamp: Stamp) -> Stamp:
        match stamp:
            case Stamp_Plain():
                return Stamp_Dated((1840, 5))
            case Stamp_Dated((year, month)):
                return Stamp_Worded(f"{year}/{month}")
            case Stamp_Worded(words):
                return Stamp_Worded(words + words)

    def spell(self, text: str) -> List[str]:
        return list(text)

    def price(self, grams: int, rate: float) -> float:
        return grams * rate

    def init(self, label: str, size: Size) -> Parcel:
        return Parcel(label, 0, None, size, Care.UPRIGHT)


class WitWorld:
    def next(self, number: int) -> int:
        return number + 1
