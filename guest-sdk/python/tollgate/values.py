"""Conversions between JSON and the values that type hints ask for."""

import dataclasses
import enum
import json
import types
import typing
from typing import Annotated, Any, Literal, NotRequired, Required, Union

from . import models
from .models import is_model

SCALARS = {str: (str,), int: (int,), float: (int, float), bool: (bool,), type(None): (type(None),)}


def alternatives(hint: Any) -> list:
    """Returns the types of a union except `None`, or the hint itself if it is not a union."""
    hint = bare(hint)
    if typing.get_origin(hint) in (Union, types.UnionType):
        return [kind for kind in typing.get_args(hint) if kind is not type(None)]
    return [hint]


def is_optional(hint: Any) -> bool:
    hint = bare(hint)
    return typing.get_origin(hint) in (Union, types.UnionType) and type(None) in typing.get_args(hint)


def bare(hint: Any) -> Any:
    """Returns a hint without its wrappers."""
    while typing.get_origin(hint) in (Annotated, Required, NotRequired):
        hint = typing.get_args(hint)[0]
    return hint


def members(kind: type) -> dict[str, Any]:
    """The hints of a dataclass's fields, or of a TypedDict's keys."""
    hints = typing.get_type_hints(kind, include_extras=True)
    if dataclasses.is_dataclass(kind):
        return {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.init}
    return hints


def required_members(kind: type) -> list[str]:
    if not dataclasses.is_dataclass(kind):
        return [name for name in members(kind) if name in kind.__required_keys__]
    hints = members(kind)
    fields = [field for field in dataclasses.fields(kind) if field.init]
    return [field.name for field in fields if not has_default(field) and not is_optional(hints[field.name])]


def has_default(field: dataclasses.Field) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def is_record(hint: Any) -> bool:
    return isinstance(hint, type) and (dataclasses.is_dataclass(hint) or typing.is_typeddict(hint))


def typed(hint: Any, value: Any) -> Any:
    """Converts JSON to the type of the hint: an enum's member, a dataclass, a tuple."""
    kinds = alternatives(hint)
    if value is None:
        return None
    hint = kinds[0] if len(kinds) == 1 else next((kind for kind in kinds if fits(kind, value)), Any)
    hint = bare(hint)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is list:
        return [typed(inner[0], item) for item in value]
    if origin is dict:
        return {name: typed(inner[1], item) for name, item in value.items()}
    if hint is tuple:
        return tuple(value)
    if origin is tuple:
        kinds = [inner[0]] * len(value) if inner[1:] == (...,) else inner
        return tuple(typed(kind, item) for kind, item in zip(kinds, value))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint(value)
    if is_model(hint):
        return models.instance(hint, value)
    if is_record(hint):
        return record(hint, value)
    return float(value) if hint is float and type(value) is int else value


def record(kind: type, value: dict) -> Any:
    """Creates a dataclass, with its own defaults for absent members, or a TypedDict."""
    hints = members(kind)
    given = {name: typed(hints[name], item) for name, item in value.items()}
    if not dataclasses.is_dataclass(kind):
        return given
    for field in dataclasses.fields(kind):
        if field.init and not has_default(field) and is_optional(hints[field.name]):
            given.setdefault(field.name, None)
    return kind(**given)


def fits(hint: Any, value: Any) -> bool:
    """Returns whether JSON is of a type, precisely enough to choose among a union's types."""
    if is_optional(hint) and value is None:
        return True
    kinds = alternatives(hint)
    if len(kinds) > 1:
        return any(fits(kind, value) for kind in kinds)
    hint = kinds[0]
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint in SCALARS:
        return isinstance(value, SCALARS[hint]) and (hint is bool or not isinstance(value, bool))
    if origin is Literal:
        return any(value == one and type(value) is type(one) for one in inner)
    if hint is list or origin is list:
        return isinstance(value, list) and all(fits(inner[0], item) for item in value if inner)
    if hint is tuple or origin is tuple:
        return isinstance(value, list) and (not inner or inner[1:] == (...,) or len(inner) == len(value))
    if hint is dict or origin is dict:
        return isinstance(value, dict) and all(fits(inner[1], item) for item in value.values() if inner)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return any(value == member.value for member in hint)
    if is_model(hint):
        try:
            models.validated(hint, value)
        except ValueError:
            return False
        return True
    if is_record(hint):
        hints = members(hint)
        return (
            isinstance(value, dict)
            and set(required_members(hint)) <= value.keys() <= hints.keys()
            and all(fits(hints[name], item) for name, item in value.items())
        )
    return True


def plain(value: Any) -> Any:
    """Returns a value as JSON can represent it."""
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if is_model(type(value)):
        return plain(models.members(value))
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {plain(name): plain(item) for name, item in value.items()}
    return value


def json_of(value: Any, what: str) -> str:
    """Returns a value as JSON text; `what` names it if it cannot be represented."""
    try:
        written = json.dumps(plain(value), ensure_ascii=False, allow_nan=False)
        written.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{what} cannot be written as JSON: {error}") from None
    return written
