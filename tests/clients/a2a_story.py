"""The story with the A2A SDK for Python, by both bindings."""

import asyncio
import uuid

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils.errors import TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError
from elsewhere import BASE, KEY, approve
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Value


def say(text=None, data=None, task=""):
    part = Part(text=text) if data is None else Part(data=data)
    message = Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[part], task_id=task)
    return SendMessageRequest(message=message)


class Story:
    """One task as its stream tells it."""

    def __init__(self):
        self.task, self.text, self.states, self.question, self.progress = None, "", [], None, []

    def add(self, event):
        kind = event.WhichOneof("payload")
        if kind == "task":
            self.task = event.task
            self.states.append(event.task.status.state)
            self.text = "".join(part.text for artifact in event.task.artifacts for part in artifact.parts)
            self.ask(event.task.status)
        elif kind == "artifact_update":
            update = event.artifact_update
            piece = "".join(part.text for part in update.artifact.parts)
            self.text = self.text + piece if update.append else piece
        elif kind == "status_update":
            status = event.status_update.status
            self.states.append(status.state)
            self.progress += [part.text for part in status.message.parts if part.text]
            self.ask(status)

    def ask(self, status):
        for part in status.message.parts:
            if part.HasField("data"):
                self.question = MessageToDict(part.data)["questions"]


async def told(stream, on_event=None):
    story = Story()
    async for event in stream:
        story.add(event)
        if on_event and await on_event(story) == "leave":
            break
    return story


async def until_asked(story):
    """Leaves a stream whose task waits for another person."""
    return "leave" if story.states[-1:] == [TaskState.TASK_STATE_AUTH_REQUIRED] else None


async def elsewhere(story):
    """Decides a gate's question as a person does, once."""
    if story.states[-1] == TaskState.TASK_STATE_AUTH_REQUIRED and story.question:
        asked, story.question = story.question[0], None
        await asyncio.to_thread(approve, story.task.id, asked["suspension_id"])


async def play(http, card, binding):
    config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding])
    client = ClientFactory(config).create(card)

    hello = await told(client.send_message(say("hello")))
    assert hello.text == "Hello there, my friend.", hello.text
    assert hello.states[-1] == TaskState.TASK_STATE_COMPLETED
    report = await told(client.send_message(say("report")))
    assert report.text == "One moment.\n\nIt is done.", report.text
    assert any("slow_report" in words for words in report.progress), report.progress
    task = await client.get_task(GetTaskRequest(id=report.task.id))
    assert task.artifacts[0].parts[0].text == report.text

    # A gate's question is decided elsewhere, and the stream continues.
    guarded = await told(client.send_message(say("guarded")), elsewhere)
    assert TaskState.TASK_STATE_AUTH_REQUIRED in guarded.states
    assert guarded.states[-1] == TaskState.TASK_STATE_COMPLETED, guarded.states

    # A tool's question is answered by a message with the task's id.
    asked = await told(client.send_message(say("approve")))
    assert asked.states[-1] == TaskState.TASK_STATE_INPUT_REQUIRED
    answer = Value()
    answer.struct_value.update({"suspension_id": asked.question[0]["suspension_id"], "answer": {"approved": True}})
    done = await told(client.send_message(say(data=answer, task=asked.task.id)))
    assert (done.task.id, done.states[-1]) == (asked.task.id, TaskState.TASK_STATE_COMPLETED)
    try:
        await told(client.send_message(say(data=answer, task=asked.task.id)))
        raise AssertionError("it was decided")
    except UnsupportedOperationError:
        pass

    # Two questions in parallel: the tool's is answered by the client, the gate's elsewhere.
    async def both(story):
        if story.states[-1] != TaskState.TASK_STATE_AUTH_REQUIRED or len(story.question or []) < 2:
            return
        open_questions, story.question = story.question, None
        for question in open_questions:
            if question["gate"] is None:
                answer = Value()
                answer.struct_value.update({"suspension_id": question["suspension_id"], "answer": {"approved": True}})
                request = say(data=answer, task=story.task.id)
                request.configuration.return_immediately = True
                await told(client.send_message(request), until_asked)
            else:
                gate = question["suspension_id"]
        await asyncio.to_thread(approve, story.task.id, gate)

    ask = await told(client.send_message(say("ask")), both)
    assert ask.states[-1] == TaskState.TASK_STATE_COMPLETED and ask.text.endswith("It is done."), ask.states

    # Reconnect in the middle, and cancel.
    stream = client.send_message(say("slow"))
    first = await anext(stream)
    await stream.aclose()
    following = asyncio.create_task(told(client.subscribe(SubscribeToTaskRequest(id=first.task.id))))
    await asyncio.sleep(0.3)
    cancelled = await client.cancel_task(CancelTaskRequest(id=first.task.id))
    assert cancelled.status.state == TaskState.TASK_STATE_CANCELED, cancelled
    assert (await following).states[-1] == TaskState.TASK_STATE_CANCELED
    try:
        await client.cancel_task(CancelTaskRequest(id=first.task.id))
        raise AssertionError("it has ended")
    except TaskNotCancelableError:
        pass
    failed = await told(client.send_message(say("fail")))
    assert failed.states[-1] == TaskState.TASK_STATE_FAILED
    try:
        await client.get_task(GetTaskRequest(id="guessed"))
        raise AssertionError("there is no such task")
    except TaskNotFoundError:
        pass
    listed = await client.list_tasks(ListTasksRequest(page_size=2))
    assert len(listed.tasks) == 2 and listed.next_page_token and listed.total_size >= 6, listed


async def main():
    headers = {"Authorization": f"Bearer {KEY}"}
    async with httpx.AsyncClient(headers=headers, timeout=60) as http:
        public = await A2ACardResolver(http, BASE).get_agent_card()
        assert [skill.id for skill in public.skills] == ["assistant", "other"]
        card = await A2ACardResolver(http, f"{BASE}/a2a/assistant").get_agent_card()
        for binding in ("JSONRPC", "HTTP+JSON"):
            await play(http, card, binding)


asyncio.run(main())
print("a2a-sdk for Python: the story is done")
