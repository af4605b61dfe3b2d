"""Reads the descriptions of a function and its parameters from a docstring."""

import inspect
import re
from typing import Callable

HEADING = re.compile(r"^\s*(?:Args|Arguments|Parameters):\s*$")
FIELD = re.compile(r"^\s*:param (?:[^:]* )?(\w+):\s*(.*)$")
BULLET = re.compile(r"^\s*[*-] (\w+) - (.*)$")
ENTRY = re.compile(r"^(\w+)(?: \([^)]*\))?:\s*(.*)$")


def description(function: Callable) -> str:
    """Returns the first paragraph of the docstring."""
    lines = []
    for line in (inspect.getdoc(function) or "").split("\n"):
        if not line.strip() or HEADING.match(line) or FIELD.match(line) or BULLET.match(line):
            break
        lines.append(line)
    return " ".join(" ".join(lines).split())


def parameter_words(function: Callable) -> dict[str, str]:
    """`:param name: text`, `* name - text`, and `name: text` under `Args:`. Text may
    continue on the next lines, indented."""
    words: dict[str, list[str]] = {}
    current, started_at, section, entries_at = None, 0, None, None
    for line in (inspect.getdoc(function) or "").split("\n"):
        indent = len(line) - len(line.lstrip())
        if HEADING.match(line):
            current, section, entries_at = None, indent, None
            continue
        if not line.strip():
            continue
        if section is not None and indent <= section:
            section = None
        found = FIELD.match(line) or BULLET.match(line)
        if found is None and section is not None and (entries_at is None or indent <= entries_at):
            entries_at = indent
            found = ENTRY.match(line.strip())
        if found is not None:
            current, started_at = found[1], indent
            words[current] = [found[2]]
        elif current is not None and indent > started_at:
            words[current].append(line.strip())
        else:
            current = None
    return {name: " ".join(text for text in texts if text) for name, texts in words.items()}
