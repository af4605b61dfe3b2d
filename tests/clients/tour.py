"""The official Python client takes the tour: TOUR.py COMMAND ARGS..., or TOUR.py URL TOKEN"""

import asyncio
import contextlib
import sys

from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.types import ElicitResult


@contextlib.asynccontextmanager
async def server_of(words):
    """Returns the server of a client: a command to start, or an address with a token."""
    if not words[0].startswith("http://"):
        yield StdioServerParameters(command=words[0], args=words[1:])
        return
    url, token = words
    async with create_mcp_http_client(headers={"Authorization": f"Bearer {token}"}) as http:
        yield streamable_http_client(url, http_client=http)


async def tour(words, mode, person):
    async def asked(context, params):
        return ElicitResult(action="accept", content={"approved": True, "comment": "From Python."})

    steps = []

    async def progressed(progress, total, message):
        steps.append(progress)

    callback = asked if person else None
    async with (
        server_of(words) as server,
        Client(server, mode=mode, elicitation_callback=callback) as client,
    ):
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

        # Clients without sessions share one conversation.
        totals = [(await client.call_tool("counter", {})).structured_content["total"] for _ in range(2)]
        has_own = "://" not in words[0] or client.protocol_version < "2026-07-28"
        assert totals[1] == totals[0] + 1 and (totals[0] == 1 or not has_own), totals
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
            assert (result.structured_content or {}).get("status") == "approval_required", result
        way = "http" if "://" in words[0] else "stdio"
        forms = "with" if person else "without"
        print(f"python: {way}, {client.protocol_version}, {forms} forms: the tour is done")


async def main():
    for mode in ("legacy", "auto"):
        for person in (True, False):
            await tour(sys.argv[1:], mode, person)


asyncio.run(main())
