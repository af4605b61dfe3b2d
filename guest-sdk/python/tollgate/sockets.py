"""Makes `http.client` and `urllib3` send their requests through the host, and with them
`urllib.request`, `requests` and other libraries that build on them. A component has no sockets."""

import inspect
import io
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from typing import Any

from . import host, http

UNSENT = ("host", "connection", "content-length", "transfer-encoding", "accept-encoding")
UNREAD = ("connection", "content-length", "transfer-encoding")


class Socket:
    """Takes the place of a connection: it collects a request as bytes, and reads as its response."""

    def __init__(self, scheme: str, host_name: str, port: int, timeout: Any):
        self._origin = f"{scheme}://{f'[{host_name}]' if ':' in host_name else host_name}:{port}"
        self.settimeout(timeout)
        self._sent = bytearray()

    def sendall(self, data: bytes) -> None:
        self._sent += data

    def makefile(self, *_: Any, **__: Any) -> io.BytesIO:
        return io.BytesIO(self._exchange())

    def settimeout(self, timeout: Any) -> None:
        # Both libraries have objects of their own that stand for the default.
        self._timeout = timeout if isinstance(timeout, (int, float)) else None

    def setsockopt(self, *_: Any) -> None:
        pass

    def shutdown(self, *_: Any) -> None:
        pass

    def close(self) -> None:
        pass

    def _exchange(self) -> bytes:
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


def adapt_connections(module: Any) -> None:
    """Changes `http.client` or `urllib3.connection`, whose classes have the same names."""
    accepted = inspect.signature(module.HTTPConnection).parameters

    class HTTPSConnection(module.HTTPConnection):
        default_port = 443

        def __init__(self, *args: Any, **options: Any):
            # The host handles TLS, so options for it have no effect.
            super().__init__(*args, **{name: value for name, value in options.items() if name in accepted})

    def connect(self: Any) -> None:
        scheme = "https" if isinstance(self, HTTPSConnection) else "http"
        self.sock = Socket(scheme, self.host, self.port, self.timeout)
        self.is_verified = True  # Otherwise urllib3 warns of an unverified certificate.

    module.HTTPConnection.connect = connect
    module.HTTPSConnection = HTTPSConnection


def adapt_client(client: Any) -> None:
    adapt_connections(client)
    client._create_https_context = lambda http_version: None
    if "HTTPSConnection" not in client.__all__:
        client.__all__.append("HTTPSConnection")


def adapt_requests(adapters: Any) -> None:
    """Removes the check that certificates of authorities are in a file: the host has its own."""
    adapters.HTTPAdapter.cert_verify = lambda *_: None


def refuse_sockets(module: Any) -> None:
    """Makes sockets an error that a tool can handle. A socket that is opened while the component is
    built would otherwise remain in it as a handle that no call has."""

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("a component has no sockets; use tollgate.http, urllib.request or requests")

    module.socket.__init__ = refuse
    for name in ("getaddrinfo", "getnameinfo", "gethostbyaddr", "gethostbyname", "gethostbyname_ex"):
        setattr(module, name, refuse)


ADAPTED = {
    "http.client": adapt_client,
    "requests.adapters": adapt_requests,
    "socket": refuse_sockets,
    "urllib3.connection": adapt_connections,
}


class Finder(MetaPathFinder):
    """Changes these modules when something imports them."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        adapt = ADAPTED.get(name)
        spec = adapt and PathFinder.find_spec(name, path, target)
        if not spec:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            adapt(module)

        spec.loader.exec_module = exec_module
        return spec


def install() -> None:
    """Has to run before a tool imports any of the modules: `tollgate build` imports this library first."""
    sys.meta_path.insert(0, Finder())
