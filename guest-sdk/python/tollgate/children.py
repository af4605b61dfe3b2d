"""Running other agents within a call."""

import json
from dataclasses import dataclass, field
from typing import Any, Optional

from . import host
from .answer import Refusal, denied, failed, not_found
from .values import json_of

HOW = {
    "waiting-input": "waits for input",
    "waiting-auth": "waits for a sign-in",
    "suspended": "waits for a person",
    "failed": "failed",
    "cancelled": "was cancelled",
    "timeout": "ran out of time",
}


@dataclass
class ChildRun:
    """A request for a child run. Each agent is granted by name."""

    agent: str
    messages: "str | list[tuple[str, str]]" = ()
    """The messages that start its thread: pairs of `user` or `assistant` and a text. A string is one
    of the user."""
    seed: dict[str, Any] = field(default_factory=dict)
    """Full names of keys with their initial values."""
    exports: list[str] = field(default_factory=list)
    """Full names of the keys to return."""
    streaming: str = "silent"
    """How much of its text this call's clients see: `silent`, `passthrough` or
    `passthrough-raw-errors`."""

    def seeds(self) -> list[tuple[str, str]]:
        return [(key, json_of(value, f"the seed of {key}")) for key, value in self.seed.items()]

    def pairs(self) -> list[tuple[str, str]]:
        return [("user", self.messages)] if isinstance(self.messages, str) else list(self.messages)


@dataclass
class ChildOutcome:
    """How a child ended, or what it waits for. The tool decides how to continue."""

    status: str = "completed"
    """`completed`, `waiting-input`, `waiting-auth`, `suspended`, `failed`, `cancelled` or `timeout`."""
    response: Optional[str] = None
    """Its last text."""
    streamed: str = ""
    """The text of all its replies, one after another, as it streamed them."""
    reason: Optional[str] = None
    """The reason that it waits or failed."""
    output: Any = None
    """Structured output, if the agent declares a schema for it."""
    steps: int = 1
    """The number of model turns."""
    run_id: str = "child-1"
    state: Optional[dict[str, Any]] = None
    """The exported keys of its run; `None` if the agent has no state."""
    thread_state: Optional[dict[str, Any]] = None
    """The exported keys of its thread, likewise."""

    def completed(self) -> "ChildOutcome":
        """Returns this outcome, or raises `failed` unless the child completed."""
        if self.status == "completed":
            return self
        reason = "" if self.reason is None else f": {self.reason}"
        raise failed(f"The child agent {HOW[self.status]}{reason}.")


def run(request: ChildRun) -> ChildOutcome:
    """Runs the child and waits until it ends or waits for a person.

    Raises a refusal if it cannot be started."""
    if host.agents is None:
        return in_test(request)
    agents, types = host.agents, host.types
    try:
        outcome = agents.run_child(
            agents.ChildRun(
                request.agent,
                [agents.Message(agents.Role[role.upper()], text) for role, text in request.pairs()],
                [types.Entry(key, value) for key, value in request.seeds()],
                request.exports,
                agents.Streaming[request.streaming.upper().replace("-", "_")],
            )
        )
    except host.Err as error:
        raise refusal_of(error.value) from None
    return ChildOutcome(
        status=words_of(outcome.status, "ChildStatus"),
        reason=getattr(outcome.status, "value", None),
        response=outcome.response,
        streamed=outcome.streamed,
        output=None if outcome.output is None else json.loads(outcome.output),
        steps=outcome.steps,
        run_id=outcome.run_id,
        state=entries_of(outcome.state),
        thread_state=entries_of(outcome.thread_state),
    )


def in_test(request: ChildRun) -> ChildOutcome:
    host.children.append(request)
    request.seeds()
    if not host.outcomes:
        raise not_found(f"There is no agent `{request.agent}`.")
    return host.outcomes.pop(0)


def words_of(case: Any, variant: str) -> str:
    """Returns the contract's name of a case: `waiting-input` for `ChildStatus_WaitingInput`."""
    name = type(case).__name__.removeprefix(f"{variant}_")
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("-")


def entries_of(entries: Optional[list]) -> Optional[dict[str, Any]]:
    return None if entries is None else {entry.key: json.loads(entry.value) for entry in entries}


def refusal_of(error: Any) -> Refusal:
    kind, value = words_of(error, "ChildError"), error.value
    if kind == "agent-not-found":
        return not_found(f"There is no agent `{value}`.")
    if kind == "not-granted":
        return denied(f"`{value}` is not granted to this component.")
    if kind == "bad-seed":
        return failed(f"The child agent refuses its first state: {value}.")
    if kind == "unsupported":
        return failed(f"The child agent's backend cannot do what is asked: {', '.join(value)}.")
    if kind == "too-deep":
        return failed(f"A child agent at depth {value} is too deep: at most 4 stand below one another.")
    return failed(value)
