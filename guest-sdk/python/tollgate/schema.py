"""JSON Schema (2020-12) from type hints and docstrings."""

import dataclasses
import enum
import inspect
import types
import typing
from dataclasses import dataclass
from typing import Annotated, Any, Callable, Literal, NotRequired, Optional, Required, Union

from . import models
from .models import is_model
from .values import is_optional, is_record, members, plain, required_members
from .words import parameter_words


@dataclass(frozen=True)
class Bounds:
    """Bounds of a number: `Annotated[int, Bounds(0, 20)]`."""

    minimum: Optional[float] = None
    maximum: Optional[float] = None


PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def of_function(function: Callable, context: type) -> dict:
    """Returns the schema of a function's arguments, without the parameter for the context."""
    hints = typing.get_type_hints(function, include_extras=True)
    words = parameter_words(function)
    schemas = Schemas()
    properties, required = {}, []
    for name, parameter in inspect.signature(function).parameters.items():
        hint = hints.get(name)
        if hint is context:
            continue
        if hint is None:
            raise TypeError(f"{function.__name__}: the parameter '{name}' has no type hint")
        schema = schemas.of(hint, f"{function.__name__}: {name}")
        if name in words:
            schema = {**schema, "description": words[name]}
        if parameter.default is not inspect.Parameter.empty:
            schema = with_default(schema, parameter.default)
        elif not is_optional(hint):
            required.append(name)
        properties[name] = schema
    return {**of_object(properties, required), **schemas.definitions()}


def of_object(properties: dict, required: list) -> dict:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def with_default(schema: dict, default: Any) -> dict:
    return schema if default is None else {**schema, "default": plain(default)}


class Schemas:
    """The schemas of one document. A recursive type becomes a definition of it."""

    def __init__(self):
        self._open: list[type] = []
        self._names: dict[type, str] = {}
        self._definitions: dict[str, dict] = {}

    def definitions(self) -> dict:
        return {"$defs": self._definitions} if self._definitions else {}

    def of(self, hint: Any, place: str) -> dict:
        if hint in PLAIN:
            return {"type": PLAIN[hint]}
        if hint is Any:
            return {}
        origin, inner = typing.get_origin(hint), typing.get_args(hint)
        if origin is Annotated:
            return self._annotated(inner, place)
        if origin in (Required, NotRequired):
            return self.of(inner[0], place)
        if origin in (Union, types.UnionType):
            kinds = [self.of(kind, place) for kind in inner if kind is not type(None)]
            return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
        if origin is Literal:
            return one_of(inner)
        if hint in (list, tuple) or origin is list:
            return {"type": "array", **({"items": self.of(inner[0], place)} if inner else {})}
        if hint is dict or origin is dict:
            return {"type": "object", **({"additionalProperties": self.of(inner[1], place)} if inner else {})}
        if origin is tuple:
            return self._tuple(inner, place)
        if isinstance(hint, type) and issubclass(hint, enum.Enum):
            return one_of([member.value for member in hint])
        if is_model(hint):
            return self._model(hint, place)
        if is_record(hint):
            return self._record(hint, place)
        raise TypeError(f"{place}: there is no schema for {hint}")

    def _annotated(self, inner: tuple, place: str) -> dict:
        schema = self.of(inner[0], place)
        for extra in inner[1:]:
            if isinstance(extra, Bounds):
                bounds = {"minimum": extra.minimum, "maximum": extra.maximum}
                schema = {**schema, **{name: bound for name, bound in bounds.items() if bound is not None}}
            elif isinstance(extra, str):
                schema = {**schema, "description": extra}
        return schema

    def _tuple(self, inner: tuple, place: str) -> dict:
        if inner[1:] == (...,):
            return {"type": "array", "items": self.of(inner[0], place)}
        items = [self.of(kind, place) for kind in inner]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "items": False}

    def _record(self, kind: type, place: str) -> dict:
        if kind in self._open and kind not in self._names:
            taken = sum(other.__name__ == kind.__name__ for other in self._names)
            self._names[kind] = f"{kind.__name__}{taken + 1}" if taken else kind.__name__
        if kind in self._names:
            return {"$ref": f"#/$defs/{self._names[kind]}"}
        self._open.append(kind)
        schema = self._members(kind, place)
        self._open.pop()
        if kind not in self._names:
            return schema
        self._definitions[self._names[kind]] = schema
        return {"$ref": f"#/$defs/{self._names[kind]}"}

    def _model(self, kind: type, place: str) -> dict:
        """The schema of a Pydantic model, as the model states it."""
        schema = models.schema(kind)
        for name, definition in schema.pop("$defs", {}).items():
            if self._definitions.setdefault(name, definition) != definition:
                raise TypeError(f"{place}: two different types are called {name}; rename one")
        return schema

    def _members(self, kind: type, place: str) -> dict:
        properties = {name: self.of(hint, f"{place}.{name}") for name, hint in members(kind).items()}
        for field in dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ():
            if field.init and field.default is not dataclasses.MISSING:
                properties[field.name] = with_default(properties[field.name], field.default)
            elif field.init and field.default_factory is not dataclasses.MISSING:
                properties[field.name] = with_default(properties[field.name], field.default_factory())
        return of_object(properties, required_members(kind))


def one_of(values: Any) -> dict:
    kinds = {PLAIN.get(type(value)) for value in values}
    stated = {} if len(kinds) > 1 or None in kinds else {"type": kinds.pop()}
    return {**stated, "enum": list(values)}
