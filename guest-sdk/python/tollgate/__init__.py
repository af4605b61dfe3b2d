"""Writing Tollgate tools in Python.

A tool is a function; its type hints are the schema, its docstring is the description
for the model:

    from tollgate import Component

    component = Component("shout")

    @component.tool(idempotent=True)
    def shout(text: str) -> str:
        \"\"\"Says it loudly.

        Args:
            text: What to say.
        \"\"\"
        return text.upper()

    Tool = component.export()

The last line is what the host calls. `component.call` runs a tool in its tests.
"""

from . import host, sockets
from .answer import (
    Answer,
    Refusal,
    Ticket,
    denied,
    error,
    failed,
    internal,
    invalid_arguments,
    not_found,
    success,
    suspend,
)
from .children import ChildOutcome, ChildRun
from .component import Component, StateKey
from .context import Context, Resumption
from .schema import Bounds

__all__ = [
    "Answer",
    "Bounds",
    "ChildOutcome",
    "ChildRun",
    "Component",
    "Context",
    "Refusal",
    "Resumption",
    "StateKey",
    "Ticket",
    "denied",
    "error",
    "failed",
    "internal",
    "invalid_arguments",
    "not_found",
    "success",
    "suspend",
]

if host.http_client is not None:
    sockets.install()
