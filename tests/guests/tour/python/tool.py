"""The tour in Python; see the README beside the languages."""

import os
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional

from tollgate import (
    Answer,
    Bounds,
    ChildRun,
    Component,
    Context,
    Resumption,
    StateKey,
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

INTEGER = {"type": "integer"}
STRING = {"type": "string"}
STRINGS = {"type": "array", "items": STRING}
INTEGERS = {"type": "object", "additionalProperties": INTEGER}


def lasting(initial: Any, reducer: str, schema: dict) -> StateKey:
    return StateKey(initial=initial, reducer=reducer, scope="thread", persistent=True, schema=schema)


component = Component(
    "tour-py",
    state={
        "replaced": lasting("nothing", "replace", STRING),
        "merged": lasting({}, "merge-patch", INTEGERS),
        "appended": lasting([], "append", STRINGS),
        "added": lasting(0, "add", INTEGER),
        "united": lasting([], "union", STRINGS),
        "greatest": lasting(0, "max", INTEGER),
        "passing": StateKey(initial="nobody", schema=STRING),
        "large": lasting("", "replace", STRING),
        "shelf.label": StateKey(),
    },
)

What = Literal[
    "echo",
    "context",
    "report",
    "reduce",
    "fill",
    "read",
    "trespass",
    "act",
    "suspend",
    "fail",
    "error",
    "message",
    "big",
    "cancel",
    "reread",
    "setting",
    "child",
    "attach",
    "file",
]


@dataclass
class Place:
    name: Annotated[str, "The name of the place."]
    zip: Annotated[Optional[str], "Its code."]
    country: Annotated[str, "The country of the place."] = "CH"


def is_allowed(text: str, **_: Any) -> None:
    if text == "forbidden":
        raise invalid_arguments("The text may not be forbidden.")


@component.tool(category="test", timeout_ms=4000, max_retries=1, idempotent=True, validate=is_allowed)
def tour_py(
    ctx: Context,
    what: What,
    how: Optional[str] = None,
    text: str = "plain",
    count: Annotated[int, Bounds(0, 1000)] = 3,
    ratio: float = 0.5,
    flag: bool = True,
    words: list[str] = [],
    size: Literal[1, 2, 4] = 2,
    place: Optional[Place] = None,
    scores: dict[str, int] = {},
) -> Any:
    """Exercises what the contract offers.

    Args:
        what: The action to take.
        how: Which way to do it.
        text: A text.
        count: A number of things.
        ratio: A part of a whole.
        flag: Yes or no.
        words: Some words.
        size: A size.
        place: A place.
        scores: Numbers by name.
    """
    match what:
        case "echo":
            given = {"what": what, "how": how, "text": text, "count": count, "ratio": ratio, "flag": flag}
            return {**given, "words": words, "size": size, "place": place, "scores": scores}
        case "context":
            return caller(ctx)
        case "report":
            return report(ctx)
        case "reduce":
            return reduce(ctx, text, count, words)
        case "fill":
            ctx.update("large", "x" * 1024 * count)
            return "filled"
        case "read":
            return read(ctx)
        case "trespass":
            ctx.update("shelf.label", text)
            return "trespassed"
        case "act":
            return act(ctx, how, text)
        case "suspend":
            return question(how, text, words, count) if ctx.resume is None else resumed(text, ctx.resume)
        case "fail":
            return fail(how, text)
        case "error":
            return {"coded": error(text, "full"), "plain": error(text)}.get(how or "", "unknown")
        case "message":
            return success({"count": count}, text)
        case "big":
            return "x" * 1024 * count
        case "cancel":
            return cancel(ctx)
        case "reread":
            reduce(ctx, text, count, words)
            return read(ctx)
        case "setting":
            return ctx.setting(text)
        case "child":
            child = ctx.run_child(ChildRun(text, how or "")).completed()
            return {"response": child.response, "streamed": child.streamed, "steps": child.steps}
        case "attach":
            ctx.attach("image/png", b"\x89PNG")
            ctx.attach_file("tour:///notes.txt", text.encode(), "text/plain")
            ctx.attach_link("https://example.org/tour", text, "A tour.")
            return "attached"
        case "file":
            return through_file(text)


def through_file(text: str) -> str:
    with open("/files/py.txt", "w", encoding="utf-8") as file:
        file.write(text)
    with open("/files/py.txt", encoding="utf-8") as file:
        read = file.read()
    os.remove("/files/py.txt")
    return read


def caller(ctx: Context) -> dict:
    run, agent = ctx.run, ctx.agent
    return {
        "tool": ctx.tool_name,
        "revision": ctx.revision,
        "timely": 1 <= ctx.deadline_ms <= 4000,
        "agent": {"id": agent.id, "description": agent.description, "delegates": agent.delegates},
        "parent": {"run": run.parent_run_id, "thread": run.parent_thread_id, "call": run.parent_call_id},
    }


def report(ctx: Context) -> str:
    ctx.activity("tour", "first stop")
    ctx.activity_delta("tour", [{"op": "add", "path": "/stops", "value": 1}])
    ctx.progress(None, status="pending")
    ctx.progress(0.25, "under way")
    ctx.progress(0.5)
    ctx.progress(None, "broken", "failed")
    ctx.progress(0.75, "stopped", "cancelled")
    ctx.progress(1, "there", "done")
    ctx.stream_output("one ")
    ctx.stream_output("two\n")
    for level in ["trace", "debug", "info", "warn", "error"]:
        ctx.log(level, level)
    return "reported"


def reduce(ctx: Context, text: str, count: int, words: list[str]) -> str:
    ctx.update("replaced", text)
    ctx.update("merged", {text: count, "gone": None})
    ctx.update("appended", text)
    ctx.update("added", count)
    ctx.update("united", words)
    ctx.update("greatest", count)
    ctx.update("passing", text)
    return "reduced"


def read(ctx: Context) -> dict:
    names = ["replaced", "merged", "appended", "added", "united", "greatest", "passing"]
    values = {name: ctx.read(name) for name in names}
    return {**values, "large": len(ctx.read("large")), "label": ctx.read("shelf.label")}


def act(ctx: Context, how: Optional[str], text: str) -> str:
    match how:
        case "add-context":
            ctx.add_context(text)
        case "transfer":
            ctx.transfer_to(text)
        case "escalate":
            ctx.escalate()
        case _:
            return "unknown"
    return "acted"


def question(how: Optional[str], text: str, words: list[str], count: int) -> "Answer | str":
    if how == "plain":
        return suspend(f"Go on with {text}?")
    if how not in ["replay-tool-call", "use-decision-as-tool-result", "pass-decision-to-tool"]:
        return "unknown"
    return suspend(
        Ticket(
            action="choose",
            message=f"Which one, {text}?",
            parameters={"words": words, "count": count},
            response_schema={"type": ["object", "string", "boolean"]},
            resume_mode=how,
        )
    )


def resumed(text: str, resume: Resumption) -> dict:
    return {
        "text": text,
        "action": resume.action,
        "message": resume.message,
        "value": resume.value,
        "reason": resume.reason,
        "decision": resume.decision_id,
        "suspension": resume.suspension_id != "",
        "decided": resume.decided_at_ms > 0,
    }


def fail(how: Optional[str], text: str) -> str:
    kinds = {
        "invalid-arguments": invalid_arguments,
        "execution-failed": failed,
        "denied": denied,
        "not-found": not_found,
        "internal": internal,
    }
    if how not in kinds:
        return "unknown"
    raise kinds[how](text)


def cancel(ctx: Context) -> Answer:
    ctx.progress(0, "waiting")
    while not ctx.is_cancelled():
        pass
    ctx.log("info", "saw the cancellation")
    return error("The run was cancelled.", "cancelled")


Tool = component.export()
