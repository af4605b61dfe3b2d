"""A call's own writes, as its later reads see them: each reducer's effect on a value, the
same as the host's. The host decides when the call commits."""

import json
from typing import Any


def reduced(reducer: str, value: Any, update: Any) -> Any:
    """Returns the value after an update."""
    if reducer == "merge-patch":
        return merge_patch(value, update)
    if reducer == "append":
        return [*as_list(value), update]
    if reducer == "add":
        return (value or 0) + update
    if reducer == "union":
        texts = {written(element) for element in [*as_list(value), *as_list(update)]}
        return [json.loads(text) for text in sorted(texts)]
    if reducer == "max":
        return update if value is None or update > value else value
    return update


def merge_patch(value: Any, patch: Any) -> Any:
    """Applies a JSON Merge Patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    members = dict(value) if isinstance(value, dict) else {}
    for name, update in patch.items():
        if update is None:
            members.pop(name, None)
        else:
            members[name] = merge_patch(members.get(name), update)
    return members


def as_list(value: Any) -> list:
    return value if isinstance(value, list) else []


def written(element: Any) -> str:
    return json.dumps(element, ensure_ascii=False, separators=(",", ":"))
