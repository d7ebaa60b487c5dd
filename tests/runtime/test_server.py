"""The HTTP server of the supervisor, over real connections."""

import socket
import subprocess
import sys
import threading
import urllib.request
from contextlib import contextmanager, suppress

import pytest

from mlgen.runtime import server
from mlgen.runtime.server import Server


@contextmanager
def served(answer, limit=16, tick=lambda _: None, pods_at=lambda _: 0):
    """Serve at a free port, and yield the server and its port."""
    ready, free = threading.Event(), socket.create_server(("", 0))
    port = free.getsockname()[1]
    free.close()
    made = Server(answer, limit, lambda breaks: (tick(breaks), ready.set()), pods_at)
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


def connect(port, source="127.0.0.1", sent=b""):
    connection = socket.create_connection(("127.0.0.1", port), 5, (source, 0))
    connection.sendall(sent)
    return connection


def is_closed(connection):
    """Wait until the server closes a connection without an answer."""
    with connection, suppress(ConnectionError):
        assert b"" == connection.recv(1)
    return True


START, END = b"GET /metrics HTTP/1.0\r\n", b"\r\n"


def finish(connection):
    """Send the rest of a request, and return whether it is answered."""
    with connection, suppress(ConnectionError):
        connection.sendall(END)
        return connection.makefile("rb").read().endswith(b"\r\n\r\na 1\n")


def test_connections_are_limited_and_freed():
    with served(lambda _: (200, "a 1\n"), 2) as (made, port):
        for _ in range(2):
            first, *others = [connect(port, sent=START) for _ in range(3)]
            assert is_closed(first)  # the newest replaces the oldest
            assert all(map(finish, others))
        assert 1 == made.breaks  # a stranger that is dropped has been heard


def test_an_address_with_many_connections_takes_none_of_another():
    with served(lambda _: (200, "a 1\n"), 3) as (_, port):
        first = connect(port, "127.0.0.2", START)
        flood = [connect(port, "127.0.0.3", START) for _ in range(9)]
        assert all(map(is_closed, flood[:-2]))
        assert finish(first)
        assert all(map(finish, flood[-2:]))


def test_strangers_take_no_connection_of_a_pod(monkeypatch):
    monkeypatch.setattr(server, "POD_CONNECTIONS", 2)
    pods = {"127.0.0.2": 1, "127.0.0.4": 3}  # three pods on the network of their node
    with served(lambda _: (200, "a 1\n"), 3, pods_at=lambda each: pods.get(each, 0)) as (_, port):
        own = [connect(port, "127.0.0.2", START) for _ in range(2)]
        node = [connect(port, "127.0.0.4", START) for _ in range(6)]
        flood = [connect(port, f"127.0.1.{at}", START) for at in range(1, 20)]
        assert all(map(is_closed, flood[:-3]))
        more = connect(port, "127.0.0.2", START)
        assert is_closed(own[0])
        assert all(map(finish, [own[1], more, *node, *flood[-3:]]))


@pytest.mark.slow
def test_pods_behind_a_proxy_are_heard_during_a_flood_from_its_address():
    ended = threading.Event()

    def flood(port):
        while not ended.is_set():
            with suppress(OSError), connect(port) as idle:
                idle.recv(1)

    with served(lambda _: (200, "a 1\n"), server.CONNECTIONS) as (_, port):
        threads = [threading.Thread(target=flood, args=(port,)) for _ in range(200)]
        for each in threads:
            each.start()
        heard = [talk(port, START + END).endswith(b"a 1\n") for _ in range(50)]
        ended.set()
        for each in threads:
            each.join()
    assert sum(heard) > 45


def test_one_request_of_a_pod_is_held():
    asked = threading.Semaphore(0)

    def answer(request):
        asked.release()
        return request.token

    with served(answer) as (made, port):
        sent = b"GET /attempt?%d HTTP/1.0\r\nAuthorization: Bearer %s\r\n\r\n"
        other, first, second = (
            connect(port, sent=sent % each) for each in ((1, b"b"), (1, b"a"), (2, b"a"))
        )
        with first:
            assert first.recv(99).startswith(b"HTTP/1.1 409 ")
        for _ in range(3):
            assert asked.acquire(timeout=5)
        made.answer = lambda request: (200, request.query)
        made.wake()
        assert [b"1", b"2"] == [
            each.makefile("rb").read().rpartition(b"\r\n")[2] for each in (other, second)
        ]
        assert not made.held


def test_a_server_that_cannot_listen_tries_again(monkeypatch):
    monkeypatch.setattr(server, "RETRY_SECONDS", 0.0)
    ticked = threading.Event()
    with socket.create_server(("", 0)) as taken:
        port, made = (
            taken.getsockname()[1],
            Server(lambda _: (200, ""), tick=lambda _: ticked.set()),
        )
        failed = threading.Event()
        monkeypatch.setattr(server.traceback, "print_exc", failed.set)
        thread = threading.Thread(target=made.run, args=(port,), daemon=True)
        thread.start()
        assert failed.wait(5)
        assert not ticked.is_set()
    assert ticked.wait(5)
    assert talk(port, START + END).startswith(b"HTTP/1.1 200 ")
    made.loop.call_soon_threadsafe(made.loop.stop)
    thread.join()


def test_an_error_of_a_tick_does_not_end_the_ticks(monkeypatch):
    monkeypatch.setattr(server, "TICK_SECONDS", 0.01)
    monkeypatch.setattr(server.asyncio.BaseEventLoop, "default_exception_handler", lambda *_: None)
    ticks, third = [], threading.Event()

    def tick(_):
        ticks.append(1)
        if len(ticks) > 2:
            third.set()
        elif len(ticks) == 2:
            raise ValueError

    with served(lambda _: (200, ""), tick=tick):
        assert third.wait(5)


EXHAUSTED = """
import resource, sys, threading, time
from mlgen.runtime.server import Server
resource.setrlimit(resource.RLIMIT_NOFILE, (30, 30))
made = Server(lambda _: (200, "a 1"), tick=lambda breaks: print(breaks, flush=True))
threading.Thread(target=made.run, args=(int(sys.argv[1]),), daemon=True).start()
sys.stdin.read()
print(f"{time.process_time():.3f}")
"""


@pytest.mark.slow
def test_without_descriptors_the_server_cannot_listen_until_strangers_are_gone():
    with socket.create_server(("", 0)) as free:
        port = str(free.getsockname()[1])
    command = [sys.executable, "-c", EXHAUSTED, port]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert "1" == process.stdout.readline().strip()
        idle = [connect(int(port)) for _ in range(40)]
        assert "2" == process.stdout.readline().strip()
        assert is_closed(idle[0])
        assert talk(int(port), START + END).endswith(b"a 1")
        process.stdin.close()
        assert float(process.stdout.read().split()[-1]) < 3  # it does not turn in a loop
    for each in idle:
        each.close()


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
        return (200, known[0]) if known else "pod"

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
        assert not made.shares


def test_the_server_shows_that_it_runs(monkeypatch):
    monkeypatch.setattr(server, "TICK_SECONDS", 0.01)
    ticks, third = [], threading.Event()

    def tick(_):
        ticks.append(1)
        if len(ticks) > 2:
            third.set()

    with served(lambda _: (200, ""), tick=tick):
        assert third.wait(5)


def test_without_ipv6_the_server_listens_on_ipv4(monkeypatch):
    monkeypatch.setattr(server.socket, "has_dualstack_ipv6", lambda: False)
    with served(lambda request: (200, request.address)) as (_, port):
        assert talk(port, b"GET / HTTP/1.1\r\n\r\n").endswith(b"127.0.0.1")
