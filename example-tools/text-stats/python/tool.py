"""text-stats in Python: what a text is made of."""

import re
from collections import Counter
from typing import Annotated

from tollgate import Answer, Bounds, Component, Context, StateKey, Ticket, error, failed, suspend

component = Component(
    "text-stats-py",
    state={"words-seen": StateKey(initial=0, reducer="add", scope="thread", persistent=True)},
)


@component.tool(category="text", idempotent=True)
def text_stats_py(
    ctx: Context,
    text: str,
    top: Annotated[int, Bounds(0, 20)] = 3,
    rounds: Annotated[int, Bounds(1, 1_000_000_000)] = 1,
    confirm: bool = False,
) -> "dict | Answer":
    """Counts the bytes, characters, words and lines of a text, and lists its most
    frequent words.

    Args:
        text: The text.
        top: How many of the most frequent words to list.
        rounds: How often to measure it.
        confirm: Whether to ask a person first.
    """
    if text == "":
        return error("There is no text to measure.", "empty_text")
    if "\0" in text:
        raise failed("The text holds a NUL character.")
    size = len(text.encode())
    if confirm and ctx.resume is None:
        return question(size)
    if ctx.resume is not None and ctx.resume.value is False:
        return error("The person said no.", "declined")
    ctx.log("debug", surroundings(ctx))
    ctx.progress(0, "measuring")
    counts: Counter = Counter()
    for _ in range(rounds):
        if ctx.is_cancelled():
            return error("The run was cancelled.", "cancelled")
        counts = count_words(text)
    words = counts.total()
    seen = ctx.read("words-seen")
    ctx.update("words-seen", words)
    most = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:top]
    for word, count in most:
        ctx.stream_output(f"{count} {word}\n")
    ctx.progress(1, f"measured {words} words", "done")
    return {
        "bytes": size,
        "characters": len(text),
        "words": words,
        "lines": text.count("\n") + (not text.endswith("\n")),
        "top": [{"word": word, "count": count} for word, count in most],
        "seen": seen,
    }


def surroundings(ctx: Context) -> str:
    """Whose call it is, for the operator."""
    run = ctx.run
    return f"call {ctx.call_id}, attempt {ctx.attempt}: agent {run.agent_id}, run {run.run_id}, thread {run.thread_id}"


def question(size: int) -> Answer:
    return suspend(
        Ticket(
            action="measure",
            message=f"Measure {size} bytes?",
            parameters={"bytes": size},
            response_schema={"type": "boolean"},
        )
    )


def count_words(text: str) -> Counter:
    words = re.split(r"[ \t\n\r\v\f]+", text)
    return Counter(re.sub("[A-Z]+", lambda upper: upper[0].lower(), word) for word in words if word)


Tool = component.export()
