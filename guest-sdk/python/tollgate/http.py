"""HTTP requests, in the manner of `requests`:

    from tollgate import http

    response = http.get("https://api.example.com/v1/items", params={"limit": 5}, timeout=5)
    response.raise_for_status()
    items = response.json()

The host sends a request only if an operator granted it, and adds the secrets that belong
to the server. `http.client` and `urllib.request` work too: they use this module.

In a tool that is an `async def`, requests that are awaited together are sent together:

    async with http.AsyncClient() as client:
        one, two = await asyncio.gather(client.get(first), client.get(second))
"""

import json as json_module
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional
from urllib.parse import urlencode, urljoin, urlsplit

from . import host
from .answer import Refusal

MAX_REDIRECTS = 20
REDIRECTS = (301, 302, 303, 307, 308)
TRANSIENT = (429, 502, 503, 504)


class HTTPError(OSError):
    """A request without a usable response. The code is the same in every language: `denied`,
    `bad_request`, `unreachable`, `timed_out`, `too_large`, `bad_response`, `redirected`, `not_found`
    or `http_status`."""

    def __init__(self, code: str, message: str, response: "Optional[Response]" = None):
        super().__init__(message)
        self.code = code
        self.message = message
        self.response = response

    def __str__(self) -> str:
        return self.message

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later: the server was not reached or too slow, or
        answered with 429, 502, 503 or 504."""
        status = None if self.response is None else self.response.status_code
        return self.code in ("unreachable", "timed_out") or status in TRANSIENT


class Timeout(HTTPError, TimeoutError):
    """The server did not answer in time."""


class Denied(HTTPError, Refusal):
    """The request was not granted. A tool that does not handle this ends as `tool_denied`."""

    kind = "denied"


class Headers(dict):
    """Headers by their names in lower case; any case finds them."""

    def __getitem__(self, name: str) -> str:
        return super().__getitem__(name.lower())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and super().__contains__(name.lower())

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name.lower(), default)


@dataclass
class Response:
    """A response. Any status is one: see `raise_for_status`."""

    status_code: int
    headers: Headers
    content: bytes
    """The body."""
    url: str = ""
    history: "list[Response]" = field(default_factory=list)
    """The redirects that were followed."""

    @property
    def ok(self) -> bool:
        return self.status_code < 400

    @property
    def encoding(self) -> str:
        for part in self.headers.get("content-type", "").split(";")[1:]:
            name, _, value = part.strip().partition("=")
            if name.lower() == "charset":
                return value.strip("\"'")
        return "utf-8"

    @property
    def text(self) -> str:
        try:
            return self.content.decode(self.encoding, "replace")
        except LookupError:
            return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        return json_module.loads(self.content)

    def raise_for_status(self) -> "Response":
        """Returns the response, or raises `HTTPError` unless its status is from 200 to 299."""
        status = self.status_code
        if 200 <= status < 300:
            return self
        if 300 <= status < 400:
            to = self.headers.get("location", "another place")
            raise HTTPError("redirected", f"The server redirects to {to}.", self)
        if status in (404, 410):
            raise HTTPError("not_found", "The server has nothing at this address.", self)
        raise HTTPError("http_status", f"The server answered with the status {status}.", self)


@dataclass
class Request:
    """A request as it is sent, without redirects."""

    method: str
    url: str
    headers: list[tuple[str, str]]
    body: bytes = b""
    timeout: Optional[float] = None
    max_bytes: Optional[int] = None


def prepared(
    method: str,
    url: str,
    params: "Optional[Mapping[str, Any] | list[tuple[str, Any]]]" = None,
    headers: Optional[Mapping[str, str]] = None,
    data: "Optional[bytes | str | Mapping[str, Any]]" = None,
    json: Any = None,
    timeout: Optional[float] = None,
    max_bytes: Optional[int] = None,
) -> Request:
    given = {name.lower(): value for name, value in (headers or {}).items()}
    if params:
        url, _, _ = url.partition("#")
        url += ("&" if "?" in url else "?") + urlencode(params, doseq=True)
    body = b""
    if json is not None:
        body = json_module.dumps(json).encode()
        given.setdefault("content-type", "application/json")
    elif isinstance(data, (bytes, str)):
        body = data.encode() if isinstance(data, str) else data
    elif data is not None:
        body = urlencode(data, doseq=True).encode()
        given.setdefault("content-type", "application/x-www-form-urlencoded")
    return Request(method.upper(), url, list(given.items()), body, timeout, max_bytes)


def redirected(request: Request, response: Response) -> Optional[Request]:
    """Returns the request that follows a redirect; `None` if the response is not one."""
    location = response.headers.get("location")
    if response.status_code not in REDIRECTS or location is None:
        return None
    url = urljoin(request.url, location)
    method, headers, body = request.method, request.headers, request.body
    if response.status_code == 303 or (response.status_code < 303 and method == "POST"):
        method, body = ("HEAD" if method == "HEAD" else "GET"), b""
        headers = [(name, value) for name, value in headers if name != "content-type"]
    if urlsplit(url)[:2] != urlsplit(request.url)[:2]:
        headers = [(name, value) for name, value in headers if name not in ("authorization", "cookie")]
    return Request(method, url, headers, body, request.timeout, request.max_bytes)


class Exchange:
    """A request and the redirects after it."""

    def __init__(self, request: Request, follows: bool):
        self.request = request
        self._follows = follows
        self._history: list[Response] = []

    def take(self, response: Response) -> Optional[Response]:
        """Returns the final response; `None` if the next request has to be sent."""
        following = redirected(self.request, response) if self._follows else None
        if following is None:
            response.history = self._history
            return response
        if len(self._history) == MAX_REDIRECTS:
            raise HTTPError("redirected", "The server redirects too often.", response)
        self._history.append(response)
        self.request = following
        return None


def request(method: str, url: str, *, allow_redirects: bool = True, **options: Any) -> Response:
    """Sends a request.

    `params` are added to the URL's query, `json` or `data` is the body, `timeout` is in seconds and
    covers everything until the whole body has arrived. A body of more than `max_bytes` is an error.

    Raises `HTTPError` if there is no response. Any status is a response."""
    exchange = Exchange(prepared(method, url, **options), allow_redirects)
    while True:
        response = exchange.take(result_of(host.send_requests([exchange.request])[0], exchange.request))
        if response is not None:
            return response


def result_of(answer: Any, sent: Request) -> Response:
    """Turns a host's answer into a response, or raises its error."""
    if isinstance(answer, host.HttpFailure):
        error = {"denied": Denied, "timed_out": Timeout}.get(answer.code, HTTPError)
        raise error(answer.code, answer.message)
    if answer.truncated:
        raise HTTPError("too_large", f"The answer is longer than {len(answer.body)} bytes.")
    headers = Headers()
    for name, value in answer.headers:
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return Response(answer.status, headers, answer.body, sent.url)


def get(url: str, **options: Any) -> Response:
    return request("GET", url, **options)


def head(url: str, **options: Any) -> Response:
    return request("HEAD", url, **{"allow_redirects": False, **options})


def post(url: str, **options: Any) -> Response:
    return request("POST", url, **options)


def put(url: str, **options: Any) -> Response:
    return request("PUT", url, **options)


def patch(url: str, **options: Any) -> Response:
    return request("PATCH", url, **options)


def delete(url: str, **options: Any) -> Response:
    return request("DELETE", url, **options)


class AsyncClient:
    """The same for tools that are an `async def`."""

    async def request(self, method: str, url: str, *, allow_redirects: bool = True, **options: Any) -> Response:
        from . import loop

        exchange = Exchange(prepared(method, url, **options), allow_redirects)
        while True:
            answer = await loop.sent(exchange.request)
            response = exchange.take(result_of(answer, exchange.request))
            if response is not None:
                return response

    async def get(self, url: str, **options: Any) -> Response:
        return await self.request("GET", url, **options)

    async def post(self, url: str, **options: Any) -> Response:
        return await self.request("POST", url, **options)

    async def put(self, url: str, **options: Any) -> Response:
        return await self.request("PUT", url, **options)

    async def patch(self, url: str, **options: Any) -> Response:
        return await self.request("PATCH", url, **options)

    async def delete(self, url: str, **options: Any) -> Response:
        return await self.request("DELETE", url, **options)

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: Any) -> None:
        pass
