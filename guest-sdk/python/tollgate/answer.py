"""The ways to end a call: an answer, which commits the tool's changes, or a
refusal, which commits nothing."""

from dataclasses import dataclass
from typing import Any, Optional


@dataclass
class Ticket:
    """A question to a person."""

    message: str
    action: str = "confirm"
    parameters: Any = None
    """Data to show the person beside the question."""
    response_schema: Optional[dict] = None
    """JSON Schema of the answer."""
    resume_mode: str = "replay-tool-call"
    """`replay-tool-call`, `use-decision-as-tool-result`, or `pass-decision-to-tool`."""


@dataclass
class Answer:
    """A tool's own answer: `success`, `error` or `pending`."""

    status: str
    data: Any = None
    message: Optional[str] = None
    ticket: Optional[Ticket] = None


def success(data: Any = None, message: Optional[str] = None) -> Answer:
    return Answer("success", data, message)


def error(message: str, code: Optional[str] = None) -> Answer:
    """The tool's own answer that it failed, for the model."""
    data = None if code is None else {"error": {"code": code, "message": message}}
    return Answer("error", data, message)


def suspend(question: "Ticket | str") -> Answer:
    """Suspends the call for a person; a string is a plain question for a confirmation."""
    if isinstance(question, str):
        return Answer("pending", message=question)
    return Answer("pending", message=question.message, ticket=question)


class Refusal(Exception):
    """An exception that ends the call without an answer of the tool's own."""

    def __init__(self, kind: str, message: str):
        super().__init__(message)
        self.kind = kind
        self.message = message


def invalid_arguments(message: str) -> Refusal:
    return Refusal("invalid_arguments", message)


def failed(message: str) -> Refusal:
    return Refusal("execution_failed", message)


def denied(message: str) -> Refusal:
    return Refusal("denied", message)


def not_found(message: str) -> Refusal:
    return Refusal("not_found", message)


def internal(message: str) -> Refusal:
    """A bug of the tool; only the operator sees the message, like the traceback of
    any other exception."""
    return Refusal("internal", message)
