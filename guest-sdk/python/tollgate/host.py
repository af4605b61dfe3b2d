"""The host's side of a call. Within a component these are the interfaces of the package
`tollgate:tool`; in a tool's tests, lists of what tools did and of what they are answered."""

from dataclasses import dataclass
from typing import Any, Callable, Optional

try:
    from componentize_py_types import Err
    from wit_world.imports import agents, call, content, http_client, settings, types
except ImportError:
    Err = agents = call = content = http_client = settings = types = None

reports: list[tuple] = []
"""The tools' reports, in a test."""

cancelled = False
"""The return value of `is_cancelled`, in a test."""

granted_settings: dict[str, str] = {}
"""The settings, in a test."""

outcomes: list[Any] = []
"""The outcomes of the next child runs, in a test."""

attachments: list[tuple] = []
"""The images, files and links that tools attached, in a test."""

children: list[Any] = []
"""The child runs that tools asked for, in a test."""


@dataclass
class HttpAnswer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes
    truncated: bool


@dataclass
class HttpFailure:
    code: str
    message: str


def report_progress(status: str, message: Optional[str], fraction: Optional[float]) -> None:
    if call is None:
        reports.append(("progress", status, message, fraction))
    else:
        call.report_progress(call.ProgressStatus[status.upper()], message, fraction)


def report_activity(kind: str, content: str) -> None:
    if call is None:
        reports.append(("activity", kind, content))
    else:
        call.report_activity(kind, content)


def report_activity_delta(kind: str, patch: str) -> None:
    if call is None:
        reports.append(("activity-delta", kind, patch))
    else:
        call.report_activity_delta(kind, patch)


def stream_output(delta: str) -> None:
    if call is None:
        reports.append(("output", delta))
    else:
        call.stream_output(delta)


def log(level: str, message: str) -> None:
    if call is None:
        reports.append(("log", level, message))
    else:
        call.log(call.Level[level.upper()], message)


def read_state(key: str) -> Optional[str]:
    return None if call is None else call.read_state(key)


def is_cancelled() -> bool:
    return cancelled if call is None else call.is_cancelled()


def setting(name: str) -> Optional[str]:
    return granted_settings.get(name) if settings is None else settings.get(name)


def attach(mime_type: str, data: bytes, uri: Optional[str]) -> None:
    if content is None:
        attachments.append((mime_type, data, uri))
    else:
        or_refused(lambda: content.attach(mime_type, data, uri))


def link(uri: str, name: str, description: Optional[str]) -> None:
    if content is None:
        attachments.append((uri, name, description))
    else:
        or_refused(lambda: content.link(uri, name, description, None))


def or_refused(attach: Callable[[], None]) -> None:
    try:
        attach()
    except Err as error:
        raise ValueError(f"it is not attached: {error.value}") from None


def send_requests(requests: list) -> "list[HttpAnswer | HttpFailure]":
    """Sends requests at once; a test's go to its own server, one after another."""
    if http_client is None:
        from . import native

        return [native.send(request) for request in requests]
    answers = http_client.send([lowered(request) for request in requests])
    return [lifted(answer) for answer in answers]


def lowered(request: Any) -> Any:
    headers = [http_client.Header(name, value) for name, value in request.headers]
    timeout_ms = None if request.timeout is None else max(1, int(request.timeout * 1000))
    return http_client.Request(
        request.method, request.url, headers, request.body, timeout_ms, request.max_bytes
    )


def lifted(answer: Any) -> "HttpAnswer | HttpFailure":
    value = answer.value
    if isinstance(answer, Err):
        return HttpFailure(value.kind.name.lower(), value.message)
    headers = [(header.name, header.value) for header in value.headers]
    return HttpAnswer(value.status, headers, value.body, value.truncated)
