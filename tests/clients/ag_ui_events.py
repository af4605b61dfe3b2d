"""Reads streams of AG-UI with the models of its Python package, which accept no unknown event."""

import json
import urllib.request

from ag_ui.core import Event, Interrupt
from elsewhere import BASE, HEADERS
from pydantic import TypeAdapter

EVENTS = TypeAdapter(Event)


def run(thread, **more):
    """Runs the agent, and returns its events as the models have them."""
    body = {"threadId": thread, "runId": f"{thread}-{len(more)}", "protocolVersion": "1.0", "state": {}, "tools": []}
    body |= {"messages": [{"id": "1", "role": "user", "content": thread}], "context": [], "forwardedProps": {}} | more
    headers = HEADERS | {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{BASE}/ag-ui/assistant", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as stream:
        lines = [line[len(b"data: ") :] for line in stream.read().splitlines() if line.startswith(b"data: ")]
    sent = [json.loads(line) for line in lines]
    read = [EVENTS.validate_python(event) for event in sent]
    for event, model in zip(sent, read, strict=True):
        unknown = event.keys() - model.model_dump(by_alias=True).keys()
        assert not unknown, (unknown, event)
    return read


for prompt, last in [("report", "RUN_FINISHED"), ("delegate", "RUN_FINISHED"), ("fail", "RUN_ERROR")]:
    assert run(prompt)[-1].type == last, prompt
asked = run("ask")[-1].outcome.interrupts
assert len(asked) == 2 and all(isinstance(interrupt, Interrupt) for interrupt in asked), asked
answers = {"tool_call": True, "input_required": {"approved": True}}
resume = [{"interruptId": i.id, "status": "resolved", "payload": answers[i.reason]} for i in asked]
assert run("ask", resume=resume)[-1].outcome.type == "success"
print("ag-ui-protocol: every event is one of its models")
