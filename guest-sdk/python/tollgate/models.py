"""Pydantic models of version 2 and 1, and other classes with the methods of version 2."""

import json
from typing import Any

from .answer import invalid_arguments


def is_model(hint: Any) -> bool:
    return isinstance(hint, type) and (
        (hasattr(hint, "model_json_schema") and hasattr(hint, "model_validate"))
        or (hasattr(hint, "__fields__") and hasattr(hint, "parse_obj"))
    )


def validated(kind: type, value: Any) -> Any:
    """Returns an instance of the model. Raises `ValueError` if the value does not fit."""
    return kind.model_validate(value) if hasattr(kind, "model_validate") else kind.parse_obj(value)


def instance(kind: type, value: Any) -> Any:
    """Returns an instance of the model; arguments that do not fit are the caller's error."""
    try:
        return validated(kind, value)
    except ValueError as error:
        raise invalid_arguments(str(error)) from None


def members(value: Any) -> Any:
    """Returns the members of an instance as JSON can represent them."""
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else json.loads(value.json())


def schema(kind: type) -> dict:
    """Returns the schema of a model, as the model states it."""
    if hasattr(kind, "model_json_schema"):
        return kind.model_json_schema()
    stated = kind.schema(ref_template="#/$defs/{model}")
    definitions = stated.pop("definitions", {})
    return current({**stated, "$defs": definitions} if definitions else stated)


def current(schema: Any) -> Any:
    """Converts a schema of draft 7, which version 1 of Pydantic writes: a list of `items` has
    another name since draft 2020-12."""
    if isinstance(schema, list):
        return [current(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {name: current(part) for name, part in schema.items()}
    if isinstance(schema.get("items"), list):
        schema["prefixItems"] = schema.pop("items")
    return schema
