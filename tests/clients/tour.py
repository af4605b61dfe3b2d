"""The official Python client takes the tour: TOUR.py COMMAND ARGS..."""

import asyncio
import sys

from mcp import Client, MCPError, StdioServerParameters
from mcp.types import ElicitResult


async def tour(command, args, mode, person):
    async def asked(context, params):
        return ElicitResult(action="accept", content={"approved": True, "comment": "From Python."})

    steps = []

    async def progressed(progress, total, message):
        steps.append(progress)

    server = StdioServerParameters(command=command, args=args)
    callback = asked if person else None
    async with Client(server, mode=mode, elicitation_callback=callback) as client:
        tools = (await client.list_tools()).tools
        names = [tool.name for tool in tools]
        assert {"echo", "counter", "request_approval", "slow_report"} <= set(names), names
        echo = next(tool for tool in tools if tool.name == "echo")
        assert echo.annotations.read_only_hint and echo.input_schema["required"] == ["text"], echo

        result = await client.call_tool("echo", {"text": "hello"})
        assert not result.is_error and result.content[0].text == "hello", result
        result = await client.call_tool("echo", {"txet": "hello"})
        assert result.is_error and result.structured_content["error"]["code"] == "invalid_arguments", result
        try:
            await client.call_tool("no_such_tool", {})
            raise AssertionError("an unknown tool was called")
        except MCPError as error:
            assert "Unknown tool" in str(error), error

        for count in (1, 2):
            result = await client.call_tool("counter", {})
            assert result.structured_content["total"] == count, result
        several = await asyncio.gather(*(client.call_tool("echo", {"text": str(n)}) for n in range(20)))
        assert [result.content[0].text for result in several] == [str(n) for n in range(20)]

        arguments = {"text": "# One\n\n# Two\n", "parts": 2, "pause_ms": 1}
        result = await client.call_tool("slow_report", arguments, progress_callback=progressed)
        assert not result.is_error, result
        assert steps == sorted(set(steps)) and steps, steps

        result = await client.call_tool("request_approval", {"question": "Shall I?"})
        if person:
            assert result.structured_content.get("approved") is True, result
        else:
            assert result.structured_content["status"] == "approval_required", result
        print(f"python: {client.protocol_version}, {'with' if person else 'without'} forms: the tour is done")


async def main():
    command, *args = sys.argv[1:]
    for mode in ("legacy", "auto"):
        for person in (True, False):
            await tour(command, args, mode, person)


asyncio.run(main())
