"""An agent on the A2A SDK for Python, for Tollgate to delegate to. Its card offers the binding that is
the argument: JSONRPC or HTTP+JSON. Prints its address."""

import asyncio
import socket
import sys

import uvicorn
from a2a.helpers.proto_helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes.agent_card_routes import create_agent_card_routes
from a2a.server.routes.jsonrpc_routes import create_jsonrpc_routes
from a2a.server.routes.rest_routes import create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part
from starlette.applications import Starlette

# The tenant that the card names, so every request does too.
TENANT = "acme"


class Executor(AgentExecutor):
    """Answers by the words of the message."""

    def __init__(self):
        self.messages = {}

    async def execute(self, context, event_queue):
        assert context.tenant == TENANT, context.tenant
        said = context.get_user_input()
        if said == "message":
            await event_queue.enqueue_event(new_text_message("No task was needed.", context_id=context.context_id))
            return
        task = context.current_task
        is_answer = task is not None
        if not is_answer:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        count = self.messages[task.context_id] = self.messages.get(task.context_id, 0) + 1
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work(updater.new_agent_message([Part(text="I think.")]))
        if is_answer:
            await updater.add_artifact([Part(text=f"{said} it is.")], artifact_id="answer")
        elif said == "ask":
            await updater.requires_input(updater.new_agent_message([Part(text="Which city?")]))
            return
        elif said == "slow":
            await asyncio.sleep(600)
        elif said == "fail":
            await updater.failed(updater.new_agent_message([Part(text="The quota is used up.")]))
            return
        else:
            for piece, word in enumerate(("Message ", "number ", f"{count}.")):
                await updater.add_artifact([Part(text=word)], artifact_id="answer", append=piece > 0)
                await asyncio.sleep(0.05)
        await updater.complete()

    async def cancel(self, context, event_queue):
        assert context.tenant == TENANT, context.tenant
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


binding = sys.argv[1]
listener = socket.create_server(("127.0.0.1", 0))
base = f"http://127.0.0.1:{listener.getsockname()[1]}"
card = AgentCard(
    name="python",
    description="Answers by the words of the message.",
    version="1",
    supported_interfaces=[
        AgentInterface(url=base, protocol_binding=binding, protocol_version="1.0", tenant=TENANT)
    ],
    capabilities=AgentCapabilities(streaming=True),
    skills=[AgentSkill(id="answer", name="Answer", description="Answers.", tags=["answer"])],
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
)
handler = DefaultRequestHandler(agent_executor=Executor(), task_store=InMemoryTaskStore(), agent_card=card)
routes = {
    "JSONRPC": lambda: create_jsonrpc_routes(handler, rpc_url="/"),
    "HTTP+JSON": lambda: create_rest_routes(handler),
}[binding]()
app = Starlette(routes=[*create_agent_card_routes(card), *routes])
print(base, flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
