"""A component in the words of the interface that the host calls."""

import json
import traceback
from typing import Any, Optional

from . import schema
from .answer import Answer, Refusal, Ticket

try:
    from componentize_py_types import Err
    from wit_world import exports
    from wit_world.imports import types
except ImportError:
    exports = None


def tool_of(component: Any) -> type:
    """The class that the host's calls go to; outside of a component, an empty one."""
    if exports is None:
        return type("Tool", (), {})

    class Tool(exports.Tool):
        def describe(self):
            tools = [descriptor(entry) for entry in component.tools.values()]
            state = [access(component.id, name, key) for name, key in component.state.items()]
            return types.ComponentDescriptor(component.id, component.version, tools, state)

        def validate_args(self, tool_name, args):
            refusing(lambda: component.validate_args(tool_name, args))

        def execute(self, args, ctx):
            answer, context = refusing(lambda: component.execute(args, ctx))
            mutations = [types.Mutation(key, update) for key, update in context.mutations]
            return types.ToolOutput(result(answer), mutations, [action(*act) for act in context.actions])

    return Tool


def refusing(work):
    """What is raised on purpose reaches the host as such; the rest is the tool's own fault."""
    try:
        return work()
    except Refusal as refusal:
        kind = "ToolError_" + "".join(part.capitalize() for part in refusal.kind.split("_"))
        raise Err(getattr(types, kind)(refusal.message)) from None
    except Exception:
        raise Err(types.ToolError_Internal(traceback.format_exc())) from None


def descriptor(entry: Any):
    return types.ToolDescriptor(
        id=entry.id,
        name=entry.name,
        description=entry.description,
        parameters=json.dumps(entry.parameters, ensure_ascii=False),
        category=entry.category,
        execution=types.ExecutionPolicy(
            entry.timeout_ms, entry.max_retries, entry.idempotent, entry.validate is not None
        ),
    )


def access(component_id: str, name: str, key: Any):
    if "." in name:
        return types.StateAccess(name, key.read, key.write, None)
    defines = types.StateKey(
        initial=json.dumps(schema.plain(key.initial), ensure_ascii=False),
        schema=None if key.schema is None else json.dumps(key.schema),
        reducer=types.Reducer[key.reducer.upper().replace("-", "_")],
        scope=types.KeyScope[key.scope.upper()],
        persistent=key.persistent,
    )
    return types.StateAccess(f"{component_id}.{name}", key.read, key.write, defines)


def result(answer: Answer):
    statuses = {
        "success": types.ToolStatus_Success,
        "error": types.ToolStatus_Error,
        "pending": lambda: types.ToolStatus_Pending(ticket(answer.ticket)),
    }
    data = json.dumps(schema.plain(answer.data), ensure_ascii=False)
    return types.ToolResult(statuses[answer.status](), data, answer.message)


def ticket(asked: Optional[Ticket]):
    if asked is None:
        return None
    return types.SuspendTicket(
        action=asked.action,
        message=asked.message,
        parameters=json.dumps(asked.parameters, ensure_ascii=False),
        response_schema=None if asked.response_schema is None else json.dumps(asked.response_schema),
        resume_mode=types.ResumeMode[asked.resume_mode.upper().replace("-", "_")],
    )


def action(kind: str, value: Optional[str]):
    kinds = {
        "add_context": lambda: types.Action_AddContext(value),
        "transfer_to_agent": lambda: types.Action_TransferToAgent(value),
        "escalate": types.Action_Escalate,
    }
    return kinds[kind]()
