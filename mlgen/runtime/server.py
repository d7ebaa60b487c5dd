"""The HTTP server of the supervisor: metrics, reports of progress, and restarts in place.

A request is answered at once, or held until the state of the job changes (long polling). Thousands
of pods may hold a request, so one thread serves all connections.

No stranger can take the connection of a pod. A connection whose request has not arrived takes part
in the share of its address: that of the pods with this address, or the one that all strangers have
together. In a full share, the newest connection replaces the one that has waited longest. A share
is larger than what the server accepts while a program sends its request, so pods whose address is a
proxy's are heard, too. A request that is held belongs to a pod, of which it is the only one.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import http
import re
import resource
import socket
import time
import traceback
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    Answer = tuple[int, str] | str
    """An HTTP status and a text; or to hold the request, the UID of its pod."""

MAX_HEAD, MAX_BODY, MAX_BUFFERED = 8 << 10, 32 << 10, 8 << 20
"""The limits in bytes of a request, and of all requests that have not arrived in full. Strangers
alone cannot reach the last one."""

REQUEST_SECONDS, HOLD_SECONDS = 10.0, 120.0
"""The time to send a request, and the time for which a request is held at most."""

CONNECTIONS, POD_CONNECTIONS = 128, 32
"""The share of all strangers, and the share of each pod: it may have several ranks, which report at
the same time."""

BATCH, QUEUE = 32, 1024
"""The connections that are accepted before the next data are read, and those that may wait."""

TICK_SECONDS, RETRY_SECONDS = 5.0, 1.0
"""The interval in which the server shows that it runs, and the pause after its failure."""

EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""The errors after which asyncio accepts no connection for a second."""

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
        limit: the number of connections of all strangers.
        tick: called every few seconds while the server runs, with the number of times that it could
            not listen. The start is the first.
        pods_at: returns the number of the job's pods with an address.
    """

    def __init__(
        self,
        answer: Callable[[Request], Answer],
        limit: int = CONNECTIONS,
        tick: Callable[[int], None] = lambda _: None,
        pods_at: Callable[[str], int] = lambda _: 0,
    ) -> None:
        self.answer, self.limit, self.tick, self.pods_at = answer, limit, tick, pods_at
        self.shares: dict[str, dict[_Connection, None]] = {}
        """The connections whose request has not arrived, oldest first, by the address of a pod. The
        share of strangers is ""."""
        self.held: dict[str, _Connection] = {}
        """The connections whose request is held, by the UID of the pod."""
        self.buffered = self.breaks = 0
        self.loop = asyncio.new_event_loop()

    def run(self, port: int) -> None:
        """Serve forever, also after a failure, until the loop is stopped."""
        with contextlib.suppress(OSError, ValueError):
            # Container runtimes set a soft limit of 1,024 open files.
            most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        while True:
            try:
                return self._serve(port)
            except Exception:  # noqa: BLE001 - such as a port that is in use
                traceback.print_exc()
            self.shares.clear()
            self.held.clear()
            self.buffered, self.loop = 0, asyncio.new_event_loop()
            time.sleep(RETRY_SECONDS)

    def _serve(self, port: int) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.set_exception_handler(self._failed)
        dual = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if dual else socket.AF_INET
        with socket.create_server(("", port), family=family, dualstack_ipv6=dual) as listener:
            # asyncio accepts as many connections at once as its backlog.
            made = self.loop.create_server(lambda: _Connection(self), sock=listener, backlog=BATCH)
            self.loop.run_until_complete(made)
            self.breaks += 1
            self._tick(listener)
            self.loop.run_forever()

    def _tick(self, listener: socket.socket) -> None:
        self.loop.call_later(TICK_SECONDS, self._tick, listener)
        listener.listen(QUEUE)
        self.tick(self.breaks)

    def could_not_listen(self) -> None:
        """Show that a pod may not have been heard."""
        self.breaks += 1
        self.tick(self.breaks)

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an exception in the loop, which goes on."""
        if getattr(context.get("exception"), "errno", None) not in EXHAUSTED:
            return loop.default_exception_handler(context)
        for connection in [*self.shares.get("", ())]:
            connection.drop()
        return self.could_not_listen()

    def share(self, new: _Connection) -> str:
        """Add a connection to the share of its address, and return the name of the share.

        A full share drops its oldest connection, of the address that has most of them.
        """
        pods = self.pods_at(new.address)
        name = new.address if pods else ""
        share = self.shares.setdefault(name, {})
        share[new] = None
        if len(share) > (pods * POD_CONNECTIONS or self.limit):
            own = Counter(each.address for each in share)
            most = max(own.values())
            next(each for each in share if own[each.address] == most).drop()
        return name

    def wake(self) -> None:
        """Answer held requests, if the answer is now known. May be called from any thread."""
        with contextlib.suppress(RuntimeError):  # a loop that has failed is closed
            self.loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for connection in [*self.held.values()]:
            connection.respond()


class _Connection(asyncio.Protocol):
    """A connection, for one request."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._data = bytearray()
        self._request: Request | None = None
        """The request, without its body until that has arrived."""
        self._is_full = False
        self._pod = ""
        """The UID of the pod whose request is held."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._timer = self._server.loop.call_later(REQUEST_SECONDS, self.drop)
        # An IPv4 client of a dual-stack socket has a mapped address (RFC 4291, section 2.5.5.2).
        self.address = str((transport.get_extra_info("peername") or ("",))[0])
        self.address = self.address.removeprefix("::ffff:")
        self._share = self._server.share(self)

    def connection_lost(self, _: Exception | None) -> None:
        self._timer.cancel()
        self._leave()

    def drop(self) -> None:
        """Close the connection without an answer."""
        self._leave()
        self._transport.abort()

    def _leave(self) -> None:
        """Free the place in the share, the buffer and the place of the pod."""
        self._is_full = True
        self._server.buffered -= len(self._data)
        self._data.clear()
        share = self._server.shares.get(self._share, {})
        share.pop(self, None)
        if not share:
            self._server.shares.pop(self._share, None)
        if self._server.held.get(self._pod) is self:
            del self._server.held[self._pod]

    def data_received(self, data: bytes) -> None:
        if self._is_full:
            return
        self._data += data
        self._server.buffered += len(data)
        request = self._request or self._head()
        if self._is_full or not request:
            return
        if len(self._data) >= request.length or request.length > MAX_BODY:
            size = request.length if request.length <= MAX_BODY else 0
            self._request = request._replace(body=bytes(self._data[:size]))
            self._leave()
            self.respond()
        elif self._server.buffered > MAX_BUFFERED:
            self.send(http.HTTPStatus.SERVICE_UNAVAILABLE, "too many requests\n")
            self._server.could_not_listen()

    def _head(self) -> Request | None:
        """Return the request without its body, and remove it from the data; None if incomplete."""
        end = self._data.find(b"\r\n\r\n")
        head = bytes(self._data if end < 0 else self._data[:end])
        headers = {name.lower(): value for name, value in HEADERS.findall(head)} if end >= 0 else {}
        length = headers.get(b"content-length", b"0")
        if len(head) > MAX_HEAD or not length.isdigit():
            self.send(http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the request is too large\n")
        elif b"transfer-encoding" in headers:
            self.send(http.HTTPStatus.LENGTH_REQUIRED, "a Content-Length is required\n")
        elif end >= 0:
            del self._data[: end + 4]
            self._server.buffered -= end + 4
            method, target, *_ = [*head.split(b"\r\n")[0].decode("latin-1").split(" "), "", ""]
            path, _, query = target.partition("?")
            token = headers.get(b"authorization", b"").decode("latin-1").removeprefix("Bearer ")
            size = int(length[:10])
            self._request = Request(method, path, query, b"", token, self.address, size)
        return self._request

    def respond(self) -> None:
        """Answer the request, or hold it. An earlier one of the same pod is no longer held."""
        answer: Answer = (http.HTTPStatus.INTERNAL_SERVER_ERROR, "")
        try:
            if self._request:
                answer = self._server.answer(self._request)
        except Exception:  # noqa: BLE001 - a request must not stop the server
            traceback.print_exc()
        if not isinstance(answer, str):
            self.send(*answer)
            return
        older = self._server.held.get(answer)
        if older is self:
            return
        if older:
            older.send(http.HTTPStatus.CONFLICT, "the pod has sent another request\n")
        self._pod = answer
        self._server.held[answer] = self
        self._timer.cancel()
        self._timer = self._server.loop.call_later(HOLD_SECONDS, self.send, 200, "")

    def send(self, status: int, text: str) -> None:
        """Answer, and close the connection."""
        self._leave()
        self._timer.cancel()
        self._timer = self._server.loop.call_later(REQUEST_SECONDS, self.drop)
        data = text.encode()
        head = f"HTTP/1.1 {int(status)} {http.HTTPStatus(status).phrase}\r\n"
        head += "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
        head += f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n"
        self._transport.write(head.encode() + data)
        self._transport.close()
