"""The HTTP server of the supervisor: metrics, reports of progress, and restarts in place.

A request is answered at once, or held until the state of the job changes (long polling). Thousands
of pods may hold a request, so one thread serves all connections.
"""

from __future__ import annotations

import asyncio
import http
import re
import resource
import socket
import traceback
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    Answer = tuple[int, str] | None
    """An HTTP status and a text; None to hold the request."""

MAX_HEAD, MAX_BODY, MAX_BUFFERED = 8 << 10, 32 << 10, 8 << 20
"""The limits in bytes of a request, and of all requests that have not arrived in full."""

REQUEST_SECONDS, HOLD_SECONDS = 10.0, 120.0
"""The time to send a request, and the time for which a request is held at most."""

CONNECTIONS = 16
"""The number of connections in addition to one for each pod."""

SENDER_CONNECTIONS = 256
"""The number of connections from one address, which pods on the network of their node share."""

TICK_SECONDS = 5.0
"""The interval in which the server shows that it runs."""

HEADERS = re.compile(rb"(?im)^(content-length|authorization|transfer-encoding):[ \t]*([^\r\n]*)")


class Request(NamedTuple):
    """A request. `token` is the bearer token, and `address` the sender's IP address.

    `length` is the length of the body. If it exceeds MAX_BODY, `body` is empty.
    """

    method: str
    path: str
    query: str
    body: bytes
    token: str
    address: str
    length: int = 0


class Server:
    """Serves `answer` at a port.

    Args:
        answer: returns the answer to a request. It runs in the server's thread.
        limit: the number of connections.
        tick: called at the start and then every few seconds, while the server runs.
    """

    def __init__(
        self,
        answer: Callable[[Request], Answer],
        limit: int = CONNECTIONS,
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        self.answer, self.limit, self.tick = answer, limit, tick
        self.connections: set[_Connection] = set()
        self.addresses: Counter[str] = Counter()
        self.buffered = 0
        self.held: dict[_Connection, Request] = {}
        self.loop = asyncio.new_event_loop()

    def run(self, port: int) -> None:
        """Serve forever."""
        # Container runtimes set a soft limit of 1,024 open files.
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        asyncio.set_event_loop(self.loop)
        dual = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if dual else socket.AF_INET
        listener = socket.create_server(
            ("", port), family=family, backlog=1024, dualstack_ipv6=dual
        )
        made = self.loop.create_server(lambda: _Connection(self), sock=listener)
        self.loop.run_until_complete(made)
        self._tick()
        self.loop.run_forever()

    def _tick(self) -> None:
        self.tick()
        self.loop.call_later(TICK_SECONDS, self._tick)

    def wake(self) -> None:
        """Answer held requests, if the answer is now known. May be called from any thread."""
        self.loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for connection, request in list(self.held.items()):
            connection.respond(request)


class _Connection(asyncio.Protocol):
    """A connection, for one request."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._data = b""
        self._is_full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._timer = self._server.loop.call_later(REQUEST_SECONDS, self._transport.abort)
        self._server.connections.add(self)
        # An IPv4 client of a dual-stack socket has a mapped address (RFC 4291, section 2.5.5.2).
        address = str(transport.get_extra_info("peername", ("",))[0])
        self._address = address.removeprefix("::ffff:")
        self._server.addresses[self._address] += 1
        own = self._server.addresses[self._address]
        if len(self._server.connections) > self._server.limit or own > SENDER_CONNECTIONS:
            self._send(http.HTTPStatus.SERVICE_UNAVAILABLE, "too many connections\n")

    def connection_lost(self, _: Exception | None) -> None:
        self._timer.cancel()
        self._server.connections.discard(self)
        self._keep(b"")
        self._server.held.pop(self, None)
        self._server.addresses[self._address] -= 1
        if not self._server.addresses[self._address]:
            del self._server.addresses[self._address]

    def data_received(self, data: bytes) -> None:
        if self._is_full:
            return
        self._keep(self._data + data)
        head, end, body = self._data.partition(b"\r\n\r\n")
        headers = {name.lower(): value for name, value in HEADERS.findall(head)} if end else {}
        length = headers.get(b"content-length", b"0")
        if len(head) > MAX_HEAD or not length.isdigit():
            self._send(http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the request is too large\n")
        elif b"transfer-encoding" in headers:
            self._send(http.HTTPStatus.LENGTH_REQUIRED, "a Content-Length is required\n")
        elif end and (len(body) >= (size := int(length[:10])) or size > MAX_BODY):
            self._is_full = True
            self._keep(b"")
            body = body[:size] if size <= MAX_BODY else b""
            self.respond(self._request(head, body, headers, size))
        elif self._server.buffered > MAX_BUFFERED:
            self._send(http.HTTPStatus.SERVICE_UNAVAILABLE, "too many requests\n")

    def _keep(self, data: bytes) -> None:
        """Keep the part of a request that has arrived."""
        self._server.buffered += len(data) - len(self._data)
        self._data = data

    def _request(
        self, head: bytes, body: bytes, headers: dict[bytes, bytes], length: int
    ) -> Request:
        method, target, *_ = [*head.split(b"\r\n")[0].decode("latin-1").split(" "), "", ""]
        path, _, query = target.partition("?")
        token = headers.get(b"authorization", b"").decode("latin-1")
        token = token.removeprefix("Bearer ")
        return Request(method, path, query, body, token, self._address, length)

    def respond(self, request: Request) -> None:
        """Answer a request, or hold it."""
        try:
            answer = self._server.answer(request)
        except Exception:  # noqa: BLE001 - a request must not stop the server
            traceback.print_exc()
            answer = (http.HTTPStatus.INTERNAL_SERVER_ERROR, "")
        if answer:
            self._send(*answer)
        elif self not in self._server.held:
            self._server.held[self] = request
            self._timer.cancel()
            self._timer = self._server.loop.call_later(HOLD_SECONDS, self._send, 200, "")

    def _send(self, status: int, text: str) -> None:
        self._is_full = True
        self._server.held.pop(self, None)
        data = text.encode()
        head = f"HTTP/1.1 {int(status)} {http.HTTPStatus(status).phrase}\r\n"
        head += "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
        head += f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n"
        self._transport.write(head.encode() + data)
        self._transport.close()
