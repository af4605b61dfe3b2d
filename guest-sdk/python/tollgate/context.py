"""The call in progress, as its tool sees it."""

import json
from dataclasses import dataclass
from typing import Any, Optional

from . import children, host
from .overlay import reduced
from .values import json_of


@dataclass
class Resumption:
    """A person's decision that resumes the call."""

    value: Any
    """The person's answer; it fits the ticket's schema."""
    action: str = "confirm"
    message: str = ""
    suspension_id: str = ""
    decision_id: str = ""
    reason: Optional[str] = None
    decided_at_ms: int = 0


class Context:
    """The call in progress. A parameter of this type is not an argument."""

    def __init__(self, component_id: str, facts: Any, state: Optional[dict] = None):
        self._component_id = component_id
        self._reducers = {self._key(name): key.reducer for name, key in (state or {}).items()}
        self._snapshot = {entry.key: entry.value for entry in facts.snapshot.values}
        self.call_id: str = facts.call_id
        self.tool_name: str = facts.tool_name
        self.run = facts.run_identity
        self.agent = facts.agent
        self.revision: int = facts.snapshot.revision
        self.deadline_ms: int = facts.deadline_ms
        """The remaining time of this attempt in milliseconds."""
        self.attempt: int = facts.attempt
        """The number of this attempt, counted from 1."""
        self.resume = resumption(facts.resume)
        """A person's answer to this tool's own question, if the call asked one."""
        self.mutations: list[tuple[str, str]] = []
        self.actions: list[tuple[str, Optional[str]]] = []

    def read(self, name: str) -> Any:
        """Returns the value of a key when the call began, with this call's own updates. For those to
        another component's key, its `StateKey` has to state its reducer if that is not `replace`."""
        key = self._key(name)
        stored = self._snapshot.get(key)
        if stored is None:
            stored = host.read_state(key)
        value = None if stored is None else json.loads(stored)
        for written, update in self.mutations:
            if written == key:
                value = reduced(self._reducers.get(key, "replace"), value, json.loads(update))
        return value

    def update(self, name: str, update: Any) -> None:
        """Adds an update for the key's reducer; it commits with the answer, or not at all."""
        key = self._key(name)
        self.mutations.append((key, json_of(update, f"the update of {key}")))

    def setting(self, name: str) -> Optional[str]:
        """Returns the setting that an operator granted; `None` if there is none."""
        return host.setting(name)

    def run_child(self, request: children.ChildRun) -> children.ChildOutcome:
        """Runs another agent and waits until it ends or waits for a person. A child that does not
        complete is an outcome; one that cannot be started raises a refusal."""
        return children.run(request)

    def add_context(self, note: str) -> None:
        """Adds a note that the model sees on its next turn; needs a grant."""
        self.actions.append(("add_context", note))

    def transfer_to(self, agent_id: str) -> None:
        """Hands the thread over to another agent; needs a grant."""
        self.actions.append(("transfer_to_agent", agent_id))

    def escalate(self) -> None:
        """Ends the enclosing loop agent; needs a grant."""
        self.actions.append(("escalate", None))

    def progress(
        self, fraction: Optional[float], message: Optional[str] = None, status: str = "running"
    ) -> None:
        """Reports the progress from 0 to 1, or `None` if unknown. `status` is
        `pending`, `running`, `done`, `failed` or `cancelled`."""
        host.report_progress(status, message, fraction)

    def activity(self, kind: str, content: str) -> None:
        """Replaces the current activity of this kind that clients show."""
        host.report_activity(kind, content)

    def activity_delta(self, kind: str, patch: list) -> None:
        """Changes the current activity of this kind by a JSON Patch (RFC 6902)."""
        host.report_activity_delta(kind, json_of(patch, f"the patch of the activity {kind}"))

    def stream_output(self, delta: str) -> None:
        """Sends a piece of output that may be shown before the call ends."""
        host.stream_output(delta)

    def log(self, level: str, message: str) -> None:
        """Writes a log line for the operator; the model never sees it. `level` is `trace`, `debug`,
        `info`, `warn` or `error`."""
        host.log(level, message)

    def attach(self, mime_type: str, data: bytes) -> None:
        """Attaches an image or a sound to the result: `mime_type` is `image/...` or `audio/...`.
        A model sees an image if it can. Raises `ValueError` if it is refused."""
        host.attach(mime_type, data, None)

    def attach_file(self, uri: str, data: bytes, mime_type: str = "") -> None:
        """Attaches a file to the result. The model reads its text if it is UTF-8 and its media
        type is `text/...`, JSON, XML or empty. Raises `ValueError` if it is refused."""
        host.attach(mime_type, data, uri)

    def attach_link(self, uri: str, name: str, description: Optional[str] = None) -> None:
        """Attaches a link that the client may fetch itself. Raises `ValueError` if it is refused."""
        host.link(uri, name, description)

    def is_cancelled(self) -> bool:
        """Returns whether the run is being cancelled, so that the tool can stop early."""
        return host.is_cancelled()

    def _key(self, name: str) -> str:
        return name if "." in name else f"{self._component_id}.{name}"


def resumption(facts: Any) -> Optional[Resumption]:
    if facts is None:
        return None
    return Resumption(
        value=json.loads(facts.value),
        action=facts.action,
        message=facts.message,
        suspension_id=facts.suspension_id,
        decision_id=facts.decision_id,
        reason=facts.reason,
        decided_at_ms=facts.decided_at_ms,
    )
