"""Adapts a component to the interface that the host calls."""

import traceback
from typing import Any, Optional

from .answer import Answer, Refusal, Ticket
from .values import json_of

try:
    from componentize_py_types import Err
    from wit_world import exports
    from wit_world.imports import types
except ImportError:
    exports = None


def tool_of(component: Any) -> type:
    """Returns the class that the host calls; outside a component, an empty one."""
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
            return refusing(lambda: output(ctx.tool_name, *component.execute(args, ctx)))

    return Tool


def refusing(work):
    """Passes refusals on to the host; any other exception is a bug of the tool."""
    try:
        return work()
    except Refusal as refusal:
        kind = "ToolError_" + "".join(part.capitalize() for part in refusal.kind.split("_"))
        raise Err(getattr(types, kind)(refusal.message)) from None
    except (Exception, SystemExit) as error:
        raise Err(types.ToolError_Internal(trace_of(error))) from None


def trace_of(error: BaseException) -> str:
    """Returns the traceback of an error, from the first frame of the tool's own code on."""
    if isinstance(error, ModuleNotFoundError):
        error.add_note("A call has no files to import from: import the module at the top of the file.")
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__package__") == __package__:
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace or error.__traceback__))


def descriptor(entry: Any):
    return types.ToolDescriptor(
        id=entry.id,
        name=entry.name,
        description=entry.description,
        parameters=json_of(entry.parameters, f"the schema of {entry.name}"),
        category=entry.category,
        execution=types.ExecutionPolicy(
            entry.timeout_ms, entry.max_retries, entry.idempotent, entry.validate is not None
        ),
    )


def access(component_id: str, name: str, key: Any):
    if "." in name:
        return types.StateAccess(name, key.read, key.is_written(is_own=False), None)
    defines = types.StateKey(
        initial=json_of(key.initial, f"the initial value of {name}"),
        schema=None if key.schema is None else json_of(key.schema, f"the schema of {name}"),
        reducer=types.Reducer[key.reducer.upper().replace("-", "_")],
        scope=types.KeyScope[key.scope.upper()],
        persistent=key.persistent,
    )
    return types.StateAccess(f"{component_id}.{name}", key.read, key.is_written(is_own=True), defines)


def output(tool_name: str, answer: Answer, context: Any):
    mutations = [types.Mutation(key, update) for key, update in context.mutations]
    returned = result(answer, f"the answer of {tool_name}")
    return types.ToolOutput(returned, mutations, [action(*act) for act in context.actions])


def result(answer: Answer, what: str):
    statuses = {
        "success": types.ToolStatus_Success,
        "error": types.ToolStatus_Error,
        "pending": lambda: types.ToolStatus_Pending(ticket(answer.ticket, what)),
    }
    data = json_of(answer.data, what)
    return types.ToolResult(statuses[answer.status](), data, answer.message)


def ticket(asked: Optional[Ticket], what: str):
    if asked is None:
        return None
    return types.SuspendTicket(
        action=asked.action,
        message=asked.message,
        parameters=json_of(asked.parameters, what),
        response_schema=None if asked.response_schema is None else json_of(asked.response_schema, what),
        resume_mode=types.ResumeMode[asked.resume_mode.upper().replace("-", "_")],
    )


def action(kind: str, value: Optional[str]):
    kinds = {
        "add_context": lambda: types.Action_AddContext(value),
        "transfer_to_agent": lambda: types.Action_TransferToAgent(value),
        "escalate": types.Action_Escalate,
    }
    return kinds[kind]()
