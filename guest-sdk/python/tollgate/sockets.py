"""Makes `http.client` send its requests through the host, and with it `urllib.request` and
libraries that build on it. A component has no sockets."""

import importlib.abc
import importlib.util
import io
import sys
from typing import Any

from . import host

UNSENT = ("host", "connection", "content-length", "transfer-encoding", "accept-encoding")
UNREAD = ("connection", "content-length", "transfer-encoding")


class Socket:
    """Takes the place of a connection: it collects a request as bytes, and reads as its response."""

    def __init__(self, scheme: str, host_name: str, port: int, timeout: Any):
        self._origin = f"{scheme}://{f'[{host_name}]' if ':' in host_name else host_name}:{port}"
        self._timeout = timeout if isinstance(timeout, (int, float)) else None
        self._sent = bytearray()

    def sendall(self, data: bytes) -> None:
        self._sent += data

    def makefile(self, *_: Any, **__: Any) -> io.BytesIO:
        return io.BytesIO(self._exchange())

    def settimeout(self, timeout: Any) -> None:
        self._timeout = timeout

    def setsockopt(self, *_: Any) -> None:
        pass

    def shutdown(self, *_: Any) -> None:
        pass

    def close(self) -> None:
        pass

    def _exchange(self) -> bytes:
        from . import http

        head, _, body = bytes(self._sent).partition(b"\r\n\r\n")
        self._sent.clear()
        first, *lines = head.decode("iso-8859-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        fields = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        if ("transfer-encoding", "chunked") in fields:
            body = unchunked(body)
        headers = [(name, value) for name, value in fields if name not in UNSENT]
        sent = http.Request(method, self._origin + path, headers, body, self._timeout)
        answer = host.send_requests([sent])[0]
        http.result_of(answer, sent)
        kept = [f"{name}: {value}" for name, value in answer.headers if name not in UNREAD]
        lines = [f"HTTP/1.1 {answer.status} -", *kept, f"content-length: {len(answer.body)}", "connection: close"]
        return "\r\n".join([*lines, "", ""]).encode("utf-8", "replace") + answer.body


def unchunked(body: bytes) -> bytes:
    parts = []
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size.split(b";")[0], 16)
        parts.append(body[:length])
        body = body[length + 2 :]
    return b"".join(parts)


def adapt(client: Any) -> None:
    """Changes the module `http.client`."""

    def connect(self: Any) -> None:
        scheme = "https" if isinstance(self, client.HTTPSConnection) else "http"
        self.sock = Socket(scheme, self.host, self.port, self.timeout)

    class HTTPSConnection(client.HTTPConnection):
        default_port = 443

        def __init__(self, *args: Any, context: Any = None, check_hostname: Any = None, **options: Any):
            super().__init__(*args, **options)
            self._context = context

    client.HTTPConnection.connect = connect
    client.HTTPSConnection = HTTPSConnection
    client._create_https_context = lambda http_version: None
    if "HTTPSConnection" not in client.__all__:
        client.__all__.append("HTTPSConnection")
    request = sys.modules.get("urllib.request")
    if request is not None and not hasattr(request, "HTTPSHandler"):
        add_https_handler(request)


def add_https_handler(request: Any) -> None:
    """Adds the handler that `urllib.request` lacks if it was imported before this library."""

    class HTTPSHandler(request.AbstractHTTPHandler):
        def __init__(self, debuglevel: Any = None, context: Any = None, check_hostname: Any = None):
            super().__init__(debuglevel)

        def https_open(self, asked: Any) -> Any:
            return self.do_open(sys.modules["http.client"].HTTPSConnection, asked)

        https_request = request.AbstractHTTPHandler.do_request_

    request.HTTPSHandler = HTTPSHandler


class Adapter(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Changes `http.client` once something imports it."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != "http.client":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        self._loader = spec.loader
        spec.loader = self
        return spec

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self._loader.exec_module(module)
        adapt(module)


def install() -> None:
    if "http.client" in sys.modules:
        adapt(sys.modules["http.client"])
    else:
        sys.meta_path.insert(0, Adapter())
