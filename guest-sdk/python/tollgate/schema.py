"""JSON Schema (2020-12) from type hints, and what a docstring says of them."""

import dataclasses
import enum
import inspect
import re
import types
import typing
from dataclasses import dataclass
from typing import Annotated, Any, Callable, Literal, Optional, Union


@dataclass(frozen=True)
class Bounds:
    """Bounds of a number: `Annotated[int, Bounds(0, 20)]`."""

    minimum: Optional[float] = None
    maximum: Optional[float] = None


PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def of_function(function: Callable, context: type) -> dict:
    """The schema of a function's arguments, without the parameter for the context."""
    hints = typing.get_type_hints(function, include_extras=True)
    words = parameter_words(inspect.getdoc(function) or "")
    properties, required = {}, []
    for name, parameter in inspect.signature(function).parameters.items():
        hint = hints.get(name)
        if hint is context:
            continue
        if hint is None:
            raise TypeError(f"{function.__name__}: the parameter '{name}' has no type hint")
        schema = of_type(hint, f"{function.__name__}: {name}")
        if name in words:
            schema = {**schema, "description": words[name]}
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
        elif parameter.default is not None:
            schema = {**schema, "default": plain(parameter.default)}
        properties[name] = schema
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def of_type(hint: Any, place: str) -> dict:
    if hint in PLAIN:
        return {"type": PLAIN[hint]}
    if hint is Any:
        return {}
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return annotated(inner, place)
    if origin in (Union, types.UnionType):
        kinds = [of_type(kind, place) for kind in inner if kind is not type(None)]
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    if origin is Literal:
        return {"enum": list(inner)}
    if origin is list:
        return {"type": "array", "items": of_type(inner[0], place)}
    if origin is dict:
        return {"type": "object", "additionalProperties": of_type(inner[1], place)}
    if origin is tuple:
        items = [of_type(kind, place) for kind in inner]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "items": False}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [member.value for member in hint]}
    if dataclasses.is_dataclass(hint):
        return of_dataclass(hint, place)
    raise TypeError(f"{place}: there is no schema for {hint}")


def annotated(inner: tuple, place: str) -> dict:
    schema = of_type(inner[0], place)
    for extra in inner[1:]:
        if isinstance(extra, Bounds):
            bounds = {"minimum": extra.minimum, "maximum": extra.maximum}
            schema = {**schema, **{name: bound for name, bound in bounds.items() if bound is not None}}
        elif isinstance(extra, str):
            schema = {**schema, "description": extra}
    return schema


def of_dataclass(kind: type, place: str) -> dict:
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = dataclasses.fields(kind)
    return {
        "type": "object",
        "properties": {field.name: of_type(hints[field.name], f"{place}.{field.name}") for field in fields},
        "required": [field.name for field in fields if is_required(field)],
        "additionalProperties": False,
    }


def is_required(field: dataclasses.Field) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def typed(hint: Any, value: Any) -> Any:
    """The value that the hint asks for: an enum's member, a dataclass, a tuple."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return typed(inner[0], value)
    if value is None:
        return None
    if origin in (Union, types.UnionType):
        kinds = [kind for kind in inner if kind is not type(None)]
        return typed(kinds[0], value) if len(kinds) == 1 else value
    if origin is list:
        return [typed(inner[0], item) for item in value]
    if origin is dict:
        return {name: typed(inner[1], item) for name, item in value.items()}
    if origin is tuple:
        return tuple(typed(kind, item) for kind, item in zip(inner, value))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint(value)
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint, include_extras=True)
        return hint(**{name: typed(hints[name], item) for name, item in value.items()})
    return value


def plain(value: Any) -> Any:
    """What JSON can hold of a value."""
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value


def description(function: Callable) -> str:
    """The first paragraph of the docstring."""
    return " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())


def parameter_words(doc: str) -> dict[str, str]:
    """`:param name: text`, and `name: text` under `Args:`."""
    words = dict(re.findall(r"^\s*:param (\w+): *(.+)$", doc, re.MULTILINE))
    _, found, after = doc.partition("Args:\n")
    for line in after.split("\n") if found else []:
        entry = re.match(r"^\s+(\w+): *(.+)$", line)
        if entry is None:
            break
        words[entry[1]] = entry[2]
    return words
