"""The story with OpenAI's library for Python: chat completions and responses."""

import time
import uuid

import openai
from elsewhere import BASE, KEY, approve

client = openai.OpenAI(base_url=f"{BASE}/v1", api_key=KEY, timeout=60)


def chat(prompt, **more):
    messages = [{"role": "user", "content": prompt}]
    return client.chat.completions.create(model="assistant", messages=messages, **more)


def streamed(prompt):
    """Streams a chat; decides its questions elsewhere. Returns text, reasoning, usage and finish."""
    text, reasoning, usage, finish = "", "", None, None
    for chunk in chat(prompt, stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            assert not choice.delta.tool_calls, chunk
            text += choice.delta.content or ""
            reasoning += (choice.delta.model_extra or {}).get("reasoning_content") or ""
            finish = choice.finish_reason or finish
        for asked in ((chunk.model_extra or {}).get("tollgate") or {}).get("waiting") or []:
            approve(asked["run_id"], asked["suspension_id"])
    return text, reasoning, usage, finish


# A chat is cancelled by leaving it, ten seconds later: left.py looks.
slow = chat("slow", stream=True, metadata={"thread_id": "left-python"})
next(iter(slow))
slow.close()

# The agents are the models.
assert [model.id for model in client.models.list()] == ["assistant", "other"]
assert client.models.retrieve("assistant").owned_by == "tollgate"

# Text, and a tool with progress.
assert chat("hello").choices[0].message.content == "Hello there, my friend."
text, _, usage, finish = streamed("hello")
assert (text, usage.total_tokens, finish) == ("Hello there, my friend.", 15, "stop")
text, reasoning, _, _ = streamed("report")
assert text == "One moment.\n\nIt is done.", text
assert "slow_report runs" in reasoning and "slow_report reports: " in reasoning, reasoning

# Reconnect in the middle: the same request with the same key joins the run.
key = {"Idempotency-Key": str(uuid.uuid4())}
first = chat("steady", stream=True, extra_headers=key)
next(iter(first))
first.close()
chunks = [chunk for chunk in chat("steady", stream=True, extra_headers=key) if chunk.choices]
assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "One moment.\n\nIt is done.", chunks

# Two questions in parallel hold the stream open until they are decided elsewhere.
text, _, _, finish = streamed("ask")
assert text.endswith("It is done.") and "/console/waiting" in text, text

# A failure is raised at once, without repetition.
for stream in (False, True):
    try:
        chat("fail", stream=stream)
        raise AssertionError("it should fail")
    except openai.InternalServerError as error:
        assert error.code == "failed" and error.status_code == 502, error
try:
    chat("hello", n=2)
    raise AssertionError("it should be refused")
except openai.BadRequestError as error:
    assert error.param == "n", error

# Responses: text, calls, and a stream whose end has everything.
response = client.responses.create(model="assistant", input="report")
kinds = [item.type for item in response.output]
assert kinds == ["message", "mcp_call", "message"], kinds
assert response.output[1].status == "completed" and response.output[1].name == "slow_report"
assert client.responses.retrieve(response.id).output_text == response.output_text
assert client.responses.input_items.list(response.id).data[0].content[0].text == "report"
with client.responses.stream(model="assistant", input="report") as stream:
    types = [event.type for event in stream]
    assert stream.get_final_response().output_text == response.output_text
assert types[0] == "response.created" and types[-1] == "response.completed", types
assert "response.mcp_call.completed" in types and "response.output_text.delta" in types, types

# Two questions in parallel: both are decided here, and the same run continues.
asked = client.responses.create(model="assistant", input="ask")
requests = [item for item in asked.output if item.type == "mcp_approval_request"]
assert len(requests) == 2 and asked.status == "completed", asked
answers = [
    {"type": "mcp_approval_response", "approval_request_id": item.id, "approve": True} for item in requests
]
done = client.responses.create(model="assistant", previous_response_id=asked.id, input=answers)
assert done.output_text == "It is done.", done
assert [item.status for item in done.output if item.type == "mcp_call"] == ["completed"] * 2, done
again = client.responses.create(model="assistant", previous_response_id=asked.id, input=answers)
assert again.id == done.id, again
try:
    client.responses.create(model="assistant", previous_response_id=asked.id, input="hello")
    raise AssertionError("another response follows")
except openai.BadRequestError as error:
    assert error.code == "previous_response_not_last" and done.id in error.message, error

# Decided elsewhere: the client gets the response that followed, and goes on.
asked = client.responses.create(model="assistant", input="guarded")
late = {"type": "mcp_approval_response", "approval_request_id": asked.output[-2].id, "approve": False}
approve(asked.model_extra["tollgate"]["run_id"], asked.output[-2].id)
done = client.responses.create(model="assistant", previous_response_id=asked.id, input=[late])
assert done.output_text == "It is done.", done
assert client.responses.retrieve(asked.id).model_extra["tollgate"]["next_response_id"] == done.id
hello = client.responses.create(model="assistant", previous_response_id=asked.id, input="hello")
assert hello.output_text == "Hello there, my friend.", hello

# Two questions in parallel, of which one is decided elsewhere: the client answers the other one.
asked = client.responses.create(model="assistant", input="ask")
mine, theirs = [item for item in asked.output if item.type == "mcp_approval_request"]
approve(asked.model_extra["tollgate"]["run_id"], theirs.id)
answer = {"type": "mcp_approval_response", "approval_request_id": mine.id, "approve": True}
done = client.responses.create(model="assistant", previous_response_id=asked.id, input=[answer])
assert done.output_text == "It is done.", done

# Reconnect in the middle: a response in the background is retrieved until it has ended.
background = client.responses.create(model="assistant", input="report", background=True)
for _ in range(600):
    current = client.responses.retrieve(background.id)
    if current.status != "in_progress":
        break
    time.sleep(0.05)
assert (current.status, current.output_text) == ("completed", "One moment.It is done."), current

# Cancel, and fail.
slow = client.responses.create(model="assistant", input="slow", background=True)
assert slow.status == "in_progress", slow
assert client.responses.cancel(slow.id).status == "cancelled"
assert client.responses.create(model="assistant", input="fail").status == "failed"
print(f"openai {openai.__version__} for Python: the story is done")
