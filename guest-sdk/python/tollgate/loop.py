"""The event loop of tools that are an `async def`: timers and requests, one call at a time."""

import asyncio
import asyncio.base_events
import time
from typing import Any, Awaitable, Optional

from . import host


class Waits:
    """Waits while no task is ready, as a selector does in other event loops."""

    def __init__(self):
        self.requests: list[tuple[Any, asyncio.Future]] = []

    def select(self, timeout: Optional[float]) -> list:
        if timeout is not None and timeout <= 0:
            return []
        if self.requests:
            self._send()
        elif timeout is None:
            raise RuntimeError("the tool waits for something that never happens")
        else:
            time.sleep(timeout)
        return []

    def _send(self) -> None:
        """Sends all requests that are awaited now at once."""
        sent = [(request, future) for request, future in self.requests if not future.done()]
        self.requests.clear()
        for answer, (_, future) in zip(host.send_requests([request for request, _ in sent]), sent):
            future.set_result(answer)

    def close(self) -> None:
        pass


class Loop(asyncio.base_events.BaseEventLoop):
    def __init__(self):
        super().__init__()
        self._selector = Waits()

    def _process_events(self, events: list) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


def run(awaitable: Awaitable) -> Any:
    """Runs a tool's coroutine to its end."""
    loop = Loop()
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(awaitable)
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def sent(request: Any) -> asyncio.Future:
    """Returns the future answer of a request."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, Loop):
        raise RuntimeError("requests are awaited within a tool's call")
    future = loop.create_future()
    loop._selector.requests.append((request, future))
    return future
