"""Names existing things in the requests that schemathesis makes; see scripts/openapi-check.

Random identifiers only reach answers 404. Valid requests therefore name the runs, questions and
threads that this module creates when it is loaded, two of three times. Invalid requests stay as
schemathesis made them.
"""

import json
import os
import time
import urllib.request

import schemathesis
from schemathesis.generation import GenerationMode

URL, KEY = os.environ["TOLLGATE_URL"], os.environ["TOLLGATE_KEY"]
PROMPTS = ["hello", "approve", "guarded", "ask", "fail", "report"]
# A run that fails is a server error in OpenAI's protocol.
TALK = ["hello", "approve", "guarded", "report"]


def send(method: str, path: str, body: dict | None = None) -> dict:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(URL + path, data, headers, method=method)) as answer:
        return json.load(answer)


def start(prompt: str, thread: str) -> dict:
    return send("POST", "/api/v1/runs", {"agent": "assistant", "input": prompt, "thread_id": thread})


runs = [start(prompt, f"thread-{at}") for at, prompt in enumerate(PROMPTS)]
call = send("POST", "/api/v1/tools/request_approval/calls", {"arguments": {"question": "May I?"}})
IDS = {
    "/runs/": [run["run_id"] for run in [*runs, call]],
    "/threads/": [run["thread_id"] for run in runs],
    "/agents/": ["assistant", "other"],
    "/problems/": ["not_found", "thread_busy"],
}
# Headers that a protocol demands of each request.
HEADERS = {"/mcp": {"Accept": "application/json, text/event-stream"}, "/a2a/": {"A2A-Version": "1.0"}}
TOOLS = ["echo", "request_approval"]
# Requests that the protocols define, of a message of the user.
PROMPTED = {
    "/v1/chat/completions": lambda text, _: {"model": "assistant", "messages": [{"role": "user", "content": text}]},
    "/v1/responses": lambda text, _: {"model": "assistant", "input": text},
    "/ai-sdk/{agent}": lambda text, chat: {
        "id": chat,
        "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": text}]}],
    },
    "/ag-ui/{agent}": lambda text, chat: {
        "threadId": chat,
        "runId": "r",
        "protocolVersion": "1.0",
        "tools": [],
        "context": [],
        "state": {},
        "forwardedProps": {},
        "messages": [{"id": "m", "role": "user", "content": text}],
    },
    "/a2a/{agent}/message:send": lambda text, _: {
        "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    },
    "/mcp": lambda text, _: {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": text, "version": "1"},
        },
    },
}
asked = 0


def open_question() -> dict | None:
    """Returns a question that waits, after starting another run if none is left."""
    found = send("GET", "/api/v1/questions")["items"]
    if not found:
        start("ask", f"thread-{time.monotonic_ns()}")
        found = send("GET", "/api/v1/questions")["items"]
    return found[0] if found else None


@schemathesis.hook
def before_call(context, case, kwargs):
    global asked
    mode = case.meta and case.meta.generation.mode
    if mode != GenerationMode.POSITIVE:
        return
    for start, headers in HEADERS.items():
        if case.operation.path.startswith(start):
            case.headers.update(headers)
    asked += 1
    path, given = case.operation.path, case.path_parameters or {}
    # Cursors are opaque, and a key is for one request.
    if path != "/api/v1/runs/{id}/events" and case.query:
        case.query.pop("after", None)
    if "Idempotency-Key" in (case.headers or {}):
        case.headers["Idempotency-Key"] = f"key-{asked}"
    if asked % 3 == 0:
        return
    if path == "/api/v1/sessions/{id}":
        send("POST", "/sign-in", {"code": KEY})
        given["id"] = send("GET", "/api/v1/sessions")["items"][0]["id"]
    for name in ("agent", "model"):
        if name in given:
            given[name] = "assistant"
    if case.method == "POST" and path in PROMPTED and isinstance(case.body, dict):
        case.body = PROMPTED[path](TALK[asked % len(TALK)], f"chat-{asked}")
        return
    if "name" in given:
        given["name"] = TOOLS[asked % len(TOOLS)]
    if path == "/api/v1/runs" and case.method == "POST" and isinstance(case.body, dict):
        case.body |= {"agent": "assistant", "input": PROMPTS[asked % len(PROMPTS)]}
        case.body.pop("thread_id", None)
    if "questions" in path and case.method == "POST" and (question := open_question()):
        given["id"] = question["run_id"]
        if "suspension" in given:
            given["suspension"] = question["suspension_id"]
        elif isinstance(case.body, dict):
            case.body["answers"] = [{"suspension_id": question["suspension_id"], "answer": "cancel"}]
        return
    for part, ids in IDS.items():
        for name in ("id", "code"):
            if part in path and name in given:
                given[name] = ids[asked % len(ids)]
