"""Requests in a tool's own tests: over the sockets of the program that runs them."""

import http.client
from typing import Any
from urllib.parse import urlsplit

from .host import HttpAnswer, HttpFailure

MAX_BYTES = 16 << 20


def send(request: Any) -> "HttpAnswer | HttpFailure":
    url = urlsplit(request.url)
    if url.scheme not in ("http", "https") or not url.hostname:
        return HttpFailure("bad_request", f'"{request.url}" is not an http or https URL.')
    origin = f"{url.scheme}://{url.netloc}"
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = kind(url.hostname, url.port, timeout=request.timeout or 10)
    try:
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        connection.request(request.method, path, request.body or None, dict(request.headers))
        response = connection.getresponse()
        most = MAX_BYTES if request.max_bytes is None else request.max_bytes
        body = response.read(most + 1)
        headers = [(name.lower(), value) for name, value in response.getheaders()]
        return HttpAnswer(response.status, headers, body[:most], len(body) > most)
    except TimeoutError:
        return HttpFailure("timed_out", f"{origin} does not answer in time.")
    except http.client.HTTPException:
        return HttpFailure("bad_response", f"{origin} does not answer in acceptable HTTP.")
    except OSError as error:
        return HttpFailure("unreachable", f"{origin} cannot be reached: {error}.")
    finally:
        connection.close()
