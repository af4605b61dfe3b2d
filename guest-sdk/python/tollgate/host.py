"""The host's side of a call. Within a component this is the interface
`tollgate:tool/call`; in a tool's tests, a list of reports."""

from typing import Optional

try:
    from wit_world.imports import call
except ImportError:
    call = None

reports: list[tuple] = []
"""The tools' reports, in a test."""

cancelled = False
"""The return value of `is_cancelled`, in a test."""


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
