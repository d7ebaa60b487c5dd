"""The HTTP server of the supervisor, over real connections."""

import socket
import threading
import urllib.request
from contextlib import contextmanager, suppress

import pytest

from mlgen.runtime import server
from mlgen.runtime.server import Server


@contextmanager
def served(answer, limit=16, tick=lambda: None):
    """Serve at a free port, and yield the server and its port."""
    ready, free = threading.Event(), socket.create_server(("", 0))
    port = free.getsockname()[1]
    free.close()
    made = Server(answer, limit, lambda: (tick(), ready.set()))
    thread = threading.Thread(target=made.run, args=(port,), daemon=True)
    thread.start()
    assert ready.wait(5)
    yield made, port
    made.loop.call_soon_threadsafe(made.loop.stop)
    thread.join()
    made.loop.close()


def talk(port, data):
    """Return the response to the bytes of a request."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(data)
        return connection.makefile("rb").read()


@pytest.fixture
def requests():
    return []


@pytest.fixture
def port(requests):
    with served(lambda request: requests.append(request) or (200, "a 1\n")) as (_, port):
        yield port


def test_a_request_is_answered(port, requests):
    url = f"http://127.0.0.1:{port}/metrics?a=1"
    sent = urllib.request.Request(url, b"{}", {"Authorization": "Bearer t"})

    with urllib.request.urlopen(sent) as answer:
        assert b"a 1\n" == answer.read()
        assert "text/plain; version=0.0.4; charset=utf-8" == answer.headers["Content-Type"]
    assert [("POST", "/metrics", "a=1", b"{}", "t", "127.0.0.1", 2)] == requests


def test_a_request_may_arrive_in_parts(port, requests):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for part in (b"POST /a HT", b"TP/1.1\r\ncontent-le", b"ngth: 3\r\n\r", b"\nab", b"c"):
            connection.sendall(part)
        assert connection.makefile("rb").read().endswith(b"\r\n\r\na 1\n")
    assert [b"abc"] == [request.body for request in requests]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"GET / HTTP/1.1\r\nA: " + b"a" * 9000, 413),
        (b"\r\n\r\n", 200),
        (b"\xff\x00 \xff\r\n\r\n", 200),
        (b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", 200),
    ],
)
def test_invalid_requests_are_answered(port, requests, sent, status):
    assert talk(port, sent).startswith(b"HTTP/1.1 %d " % status)
    assert all(not request.body for request in requests)
    assert talk(port, b"GET /metrics HTTP/1.1\r\n\r\n").endswith(b"a 1\n")


def test_an_error_while_answering_does_not_stop_the_server(capsys):
    with served(lambda request: 1 // (request.path == "/b")) as (made, port):
        assert talk(port, b"GET /a HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 500 ")
        made.answer = lambda _: (200, "")
        assert talk(port, b"GET /b HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_connection_without_a_request_is_closed(monkeypatch, request):
    monkeypatch.setattr(server, "REQUEST_SECONDS", 0.1)
    port = request.getfixturevalue("port")

    for sent in (b"", b"GET /metrics HTTP/1.1\r\nA: ", b"\xff"):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(sent)
            with suppress(ConnectionResetError):
                assert b"" == connection.recv(1)


@pytest.mark.parametrize(("limit", "of_address"), [(1, 256), (16, 1)])
def test_connections_are_limited_and_freed(monkeypatch, limit, of_address):
    monkeypatch.setattr(server, "SENDER_CONNECTIONS", of_address)
    request = b"GET /metrics HTTP/1.0\r\n\r\n"
    with served(lambda _: (200, "a 1\n"), limit) as (_, port):
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", port)) as first:
                first.sendall(request[:3])
                assert b"503" in talk(port, b"")
                first.sendall(request[3:])
                assert first.makefile("rb").read().endswith(b"\r\n\r\na 1\n")


def test_the_memory_of_unfinished_requests_is_limited(monkeypatch):
    monkeypatch.setattr(server, "MAX_BUFFERED", 3000)
    start, body = b"POST / HTTP/1.0\r\nContent-Length: 2000\r\n\r\n", b"a" * 1900
    with served(lambda _: (200, "a 1\n")) as (made, port):
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", port)) as first:
                first.sendall(start + body)
                while made.buffered < len(body):
                    pass
                assert b"503" in talk(port, start + body)
                first.sendall(b"a" * 100)
                assert first.makefile("rb").read().endswith(b"\r\n\r\na 1\n")
        assert 0 == made.buffered


def test_a_request_is_held_until_its_answer_is_known(monkeypatch):
    known, asked = [], threading.Event()

    def answer(_):
        asked.set()
        return (200, known[0]) if known else None

    with served(answer) as (made, port):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"GET /attempt HTTP/1.1\r\n\r\n")
            assert asked.wait(5)
            made.wake()
            known.append("2\n")
            made.wake()
            assert connection.makefile("rb").read().endswith(b"2\n")
        known.clear()
        monkeypatch.setattr(server, "HOLD_SECONDS", 0.1)
        assert talk(port, b"GET / HTTP/1.1\r\n\r\n").endswith(b"\r\n\r\n")
        assert not made.held
        assert not made.addresses


def test_the_server_shows_that_it_runs(monkeypatch):
    monkeypatch.setattr(server, "TICK_SECONDS", 0.01)
    ticks, third = [], threading.Event()

    def tick():
        ticks.append(1)
        if len(ticks) > 2:
            third.set()

    with served(lambda _: (200, ""), tick=tick):
        assert third.wait(5)


def test_without_ipv6_the_server_listens_on_ipv4(monkeypatch):
    monkeypatch.setattr(server.socket, "has_dualstack_ipv6", lambda: False)
    with served(lambda request: (200, request.address)) as (_, port):
        assert talk(port, b"GET / HTTP/1.1\r\n\r\n").endswith(b"127.0.0.1")
