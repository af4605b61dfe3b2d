"""A component: its id, its state, and its tools."""

import copy
import inspect
import json
import typing
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Callable, Optional

from . import host, schema, values, words
from .answer import Answer, Refusal
from .children import ChildOutcome
from .context import Context, Resumption


@dataclass
class StateKey:
    """State that a component defines or reaches by grant."""

    initial: Any = None
    """The value before the first update."""
    reducer: str = "replace"
    """`replace`, `merge-patch`, `append`, `add`, `union` or `max`."""
    scope: str = "run"
    """`run` ends with the run, `thread` lives as long as the thread."""
    persistent: bool = False
    """Whether it outlives the host's process."""
    schema: Optional[dict] = None
    read: bool = True
    write: Optional[bool] = None
    """By default, a key of the component's own is written, and another
    component's is not."""

    def is_written(self, is_own: bool) -> bool:
        return is_own if self.write is None else self.write


@dataclass
class ToolEntry:
    function: Callable
    name: str
    id: str
    description: str
    parameters: dict
    category: Optional[str]
    timeout_ms: Optional[int]
    max_retries: Optional[int]
    idempotent: bool
    validate: Optional[Callable]
    is_explicit: bool
    """Whether the parameters are stated instead of derived from the function's type hints."""

    def arguments(self, given: str) -> dict:
        """Returns the function's parameters without the context."""
        if self.is_explicit:
            return self.stated_arguments(json.loads(given))
        hints = typing.get_type_hints(self.function, include_extras=True)
        arguments = {name: values.typed(hints[name], value) for name, value in json.loads(given).items()}
        for name, parameter in inspect.signature(self.function).parameters.items():
            if name not in arguments and hints[name] is not Context:
                stated = parameter.default is not inspect.Parameter.empty
                arguments[name] = copy.deepcopy(parameter.default) if stated else None
        return arguments

    def stated_arguments(self, given: dict) -> dict:
        """Returns arguments as they are, with the defaults of the stated parameters."""
        properties = self.parameters.get("properties", {})
        defaults = {name: schema["default"] for name, schema in properties.items() if "default" in schema}
        return {**copy.deepcopy(defaults), **given}


class Component:
    def __init__(self, id: str, version: str = "0.1.0", state: Optional[dict[str, StateKey]] = None):
        """`state` maps names to keys. A name without a dot is a key of the component's
        own; one with a dot is another component's, and needs a grant."""
        self.id = id
        self.version = version
        self.state = state or {}
        self.tools: dict[str, ToolEntry] = {}

    def tool(
        self,
        *,
        name: Optional[str] = None,
        description: Optional[str] = None,
        parameters: Optional[dict] = None,
        category: Optional[str] = None,
        timeout_ms: Optional[int] = None,
        max_retries: Optional[int] = None,
        idempotent: bool = False,
        validate: Optional[Callable] = None,
    ) -> Callable[[Callable], Callable]:
        """Makes a function a tool; it remains callable. It may be an `async def`. `validate` is
        called with the same arguments, except for the context, to check constraints that the types
        cannot express; it raises `invalid_arguments`. `description` and `parameters`, a JSON Schema,
        take the place of those that are derived from the function; its arguments are then plain JSON."""

        def register(function: Callable) -> Callable:
            tool_name = name or function.__name__
            self.tools[tool_name] = ToolEntry(
                function=function,
                name=tool_name,
                id=tool_name.lower().replace("_", "-"),
                description=words.description(function) if description is None else description,
                parameters=schema.of_function(function, Context) if parameters is None else parameters,
                category=category,
                timeout_ms=timeout_ms,
                max_retries=max_retries,
                idempotent=idempotent,
                validate=validate,
                is_explicit=parameters is not None,
            )
            if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(validate):
                # Imported while the component is built: a call has no files to import from.
                from . import loop  # noqa: F401
            return function

        return register

    def execute(self, args: str, facts: Any) -> tuple[Answer, Context]:
        entry = self.tools[facts.tool_name]
        context = Context(self.id, facts, self.state)
        given = entry.arguments(args)
        for parameter, hint in typing.get_type_hints(entry.function).items():
            if hint is Context and parameter in inspect.signature(entry.function).parameters:
                given[parameter] = context
        returned = awaited(entry.function(**given))
        return returned if isinstance(returned, Answer) else Answer("success", returned), context

    def call(
        self,
        tool_name: str,
        args: dict,
        state: Optional[dict] = None,
        resume: Optional[Resumption] = None,
        settings: Optional[dict[str, str]] = None,
        children: Optional[list[ChildOutcome]] = None,
    ) -> tuple[Answer, Context]:
        """Calls a tool as the host would, in a test. `state` has full names of keys; the component's
        other keys have their initial values. `children` are the outcomes of the tool's child runs, in
        order."""
        host.granted_settings, host.outcomes = settings or {}, list(children or [])
        stored = {**self.initial_state(), **(state or {})}
        snapshot = [
            SimpleNamespace(key=key, value=values.json_of(value, f"the value of {key}"))
            for key, value in stored.items()
        ]
        answered = resume and SimpleNamespace(**{**resume.__dict__, "value": json.dumps(resume.value)})
        facts = SimpleNamespace(
            call_id="call-1",
            tool_name=tool_name,
            run_identity=SimpleNamespace(
                run_id="run-1",
                thread_id="thread-1",
                agent_id="test",
                parent_run_id=None,
                parent_thread_id=None,
                parent_call_id=None,
            ),
            agent=SimpleNamespace(id="test", description=None, delegates=[]),
            snapshot=SimpleNamespace(revision=0, values=snapshot),
            deadline_ms=15_000,
            attempt=1,
            resume=answered,
        )
        answer, context = self.execute(json.dumps(args), facts)
        values.json_of(answer.data, f"the answer of {tool_name}")
        return answer, context

    def initial_state(self) -> dict:
        """Returns the initial values of the component's own keys that its tools may read."""
        own = {name: key for name, key in self.state.items() if key.read and "." not in name}
        return {f"{self.id}.{name}": key.initial for name, key in own.items()}

    def validate_args(self, tool_name: str, args: str) -> None:
        entry = self.tools[tool_name]
        if entry.validate is not None:
            awaited(entry.validate(**entry.arguments(args)))

    def export(self) -> type:
        """Returns the class that the host calls; a tool's module names it `Tool`."""
        from . import exported

        return exported.tool_of(self)


def awaited(returned: Any) -> Any:
    """Returns the value of a function, or of the coroutine that it returned."""
    if not inspect.isawaitable(returned):
        return returned
    from . import loop

    return loop.run(returned)


__all__ = ["Component", "Refusal", "StateKey"]
