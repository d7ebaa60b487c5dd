"""Targets for what reaches the supervisor from outside: the API's answers, and pods' requests."""

import http.client
import json
import math
import threading
import traceback
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest import mock

from fuzz.checks import require, target
from fuzz.of_lines import repeated
from fuzz.shapes import Shaper
from runtime.history import History
from runtime.world import Client, World
from yaml_texts import damaged

from mlgen.runtime import server, supervise
from mlgen.runtime.api import Api, ApiError
from mlgen.runtime.plan import Plan, Workload
from mlgen.runtime.step import LONGEST, Impossible, Step

# Answers of the API server


class Enough(BaseException):
    """A loop that never ends has been tried for long enough."""


STEPS, SLEEPS, CONNECTIONS = 4, 5, 60
"""The passes of a supervisor, the sleeps of a watch, and the requests for one text."""

FIELDS = ("kind", "metadata", "spec", "status", "data")

ODD = (
    *("", "null", "[]", "0", '"text"', "{}", "<html><body>Bad Gateway</body></html>", "\x00"),
    *('{"items": null}', '{"items": [null]}', '{"items": [{}], "metadata": null}'),
    *('{"kind": "Status", "code": 200}', '{"kind": "Status", "code": "x", "message": []}'),
    *('{"type": "ERROR", "object": null}', '{"type": "MODIFIED", "object": {"metadata": {}}}'),
    *('{"type": "ERROR", "object": {"code": 410}}', '{"type": "BOOKMARK", "object": "x"}'),
    *("[" * 5000, '{"a":' * 5000, '{"metadata": {"name": ', "9" * 5000, "NaN", "1e999"),
)
"""Answers that are no objects."""

HEADERS = (
    *("Date: Sat, 28 Nov 2026 04:00:00 GMT", "Date: Mon, 1 Jan 9999999 00:00:00 +9999", "Date: "),
    *("Date: x", "Date: 1", "Date: Thu, 01 Jan 1970 00:00:00 GMT", "Date: 0 0 0 0 0"),
    *("Retry-After: 3600", f"Retry-After: {'9' * 400}", "Retry-After: -1", "Retry-After: \xb2"),
    *("Content-Length: 3", "Transfer-Encoding: chunked", "Content-Length: x", ": x", "x" * 70_000),
)


@cache
def scenes() -> list[tuple[int, dict[str, Any]]]:
    """Return observed states: the seed of a history, and the objects by their path."""
    found = []
    for seed in range(12):
        history = History(seed)
        play = history.step

        def step(each: Any, history: Any = history, play: Any = play, seed: int = seed) -> None:
            play(each)
            found.append((seed, objects(history.world)))

        history.step = step
        history.run()
    return found[::7]


def objects(world: World) -> dict[str, Any]:
    """Return the answers of a model of the cluster, by path."""
    bodies: dict[str, Any] = {}
    for (kind, name), body in world.objects.items():
        if kind != "Event":
            kept = json.loads(json.dumps({key: body[key] for key in FIELDS if key in body}))
            bodies[f"{kind.lower()}s/{name}"] = kept
    for kind in ("Job", "StatefulSet", "Pod"):
        items = [each for path, each in bodies.items() if path.startswith(f"{kind.lower()}s/")]
        version = str(world.version)
        bodies[f"{kind.lower()}s"] = {"metadata": {"resourceVersion": version}, "items": items}
        events = [{"type": "MODIFIED", "object": each} for each in items]
        bodies[f"watch {kind.lower()}s"] = events[-1] if events else {"type": "BOOKMARK"}
    return bodies


def answers(chance: Any) -> str:
    """Return the answers to all requests: a seed, a status, headers, and a body for each path."""
    seed, bodies = chance.choice(scenes())
    bodies = json.loads(json.dumps(bodies))
    for _ in range(chance.choice((0, 1, 1, 1, 2, 4))):
        path = chance.choice([*bodies])
        bodies[path] = Shaper(chance).changed(bodies[path])
    texts = {path: json.dumps(body) for path, body in bodies.items()}
    for _ in range(chance.choice((0, 0, 1, 2))):
        texts[chance.choice([*texts])] = chance.choice(ODD)
    status = chance.choice((200, 200, 200, 200, 409, 410, 422, 429, 500, 503))
    headers = [chance.choice(HEADERS) for _ in range(chance.choice((0, 1, 1, 2)))]
    lines = [f"{seed} {status}", *headers, *(f"{path}\t{text}" for path, text in texts.items())]
    text = "\n".join(lines)
    return damaged(chance, text) if chance.random() < 0.2 else text


class Socket:
    """A connection to an API server that has these answers."""

    def __init__(self, head: bytes, bodies: dict[str, bytes]) -> None:
        self.head, self.bodies, self.sent = head, bodies, b""

    def sendall(self, data: bytes) -> None:
        self.sent += data

    def makefile(self, *_: Any) -> BytesIO:
        method, url, *_ = self.sent.decode().split(" ")
        path, _, query = url.partition("?")
        name = path.partition("/namespaces/team/")[2]
        name = f"watch {name}" if "watch=true" in query else name
        if name not in self.bodies and method in ("GET", "PATCH"):
            return BytesIO(b'HTTP/1.1 404 No\r\n\r\n{"kind": "Status", "code": 404}')
        return BytesIO(self.head + self.bodies.get(name, self.sent.partition(b"\r\n\r\n")[2]))

    def close(self) -> None:
        """Do nothing."""


def read(text: str) -> tuple[Plan, bytes, dict[str, bytes]]:
    """Return the plan, the head of all answers, and their bodies, of a text of `answers`."""
    first, *lines = text.encode("utf-8", "surrogatepass").split(b"\n")
    numbers = [int(each) for each in first.split(b" ") if each.isdigit() and len(each) < 4]
    seed, status, *_ = [*numbers, 0, 200]
    bodies = dict(each.split(b"\t", 1) for each in lines if b"\t" in each)
    headers = [each for each in lines if b"\t" not in each]
    head = b"\r\n".join([b"HTTP/1.1 %d x" % status, *headers, b"", b""])
    known = {path.decode(errors="replace"): body for path, body in bodies.items()}
    return plan(seed % 12), head, known


plan = cache(lambda seed: History(seed).plan)

MANIFESTS = """\
---
apiVersion: batch/v1
kind: Job
metadata:
  name: mnist-worker
"""


@target(make=answers)
def api_answers(text: str) -> None:
    """Whatever the API server answers, a supervisor, its watches and a step of Argo go on."""
    job, head, bodies = read(text)
    sleeps, made, said = [0], [0], []

    def connect(timeout: float) -> http.client.HTTPConnection:
        made[0] += 1
        if made[0] > CONNECTIONS:
            raise Enough
        connection = http.client.HTTPConnection("api", timeout=timeout)
        connection.sock = Socket(head, bodies)  # type: ignore[assignment]
        return connection

    def sleep(seconds: float) -> None:
        sleeps[0] += 1
        require(0 <= seconds <= LONGEST, "sleeps", seconds)
        if sleeps[0] > SLEEPS:
            raise Enough

    account = Path()
    (account / "token").write_text("t")
    (account / "namespace").write_text("team")
    client = Api(connect, "api", account, sleep, said.append)
    supervisor = supervise.Supervisor(job, client, said.append)
    for kind, selectors in supervise.watches(job)[-2:]:
        sleeps[0] = made[0] = 0
        ended(supervise.ring, client, threading.Event(), supervisor.pods, kind, selectors)
    for _ in range(STEPS):
        made[0] = 0
        delay = ended(supervisor.step)
        require(made[0] <= CONNECTIONS, "sends requests without end")
        require(delay is None or 0 <= delay <= supervise.RESYNC, "waits", delay)
    sleeps[0] = made[0] = 0
    with mock.patch("mlgen.runtime.step.log_line"):
        ended(Step(job, client, ("w", "u"), sleep).submit, MANIFESTS)
    require(math.isfinite(client.clock.now()), "the time is", client.clock.now())
    require(all(len(line.splitlines()) < 2 for line in said), "logs lines", said)


def ended(what: Any, *arguments: Any) -> Any:
    """Call a function that may give up in a known way; return its result, or None."""
    try:
        return what(*arguments)
    except (Enough, SystemExit, ApiError, Impossible):
        return None


# Requests of pods

WORKER = Workload("Job", "mnist-worker", "worker", replicas=2, retryable="any")
JOB = Plan(
    job="mnist",
    run="r",
    deciding=("mnist-worker",),
    workloads=(WORKER,),
    restart_scope="All",
    backoff_limit=3,
    in_place=True,
    progress=True,
    stalled_seconds=60,
    restart_stalled=True,
    port=8080,
)
TOKEN = "uid-of-a-pod"
REQUESTS = (
    *("GET ", "POST ", "PUT ", "/attempt", "/progress", "/metrics", "?after=0", "?attempt=0", "&"),
    *("?attempt=", "9" * 4400, "\xb2", "=", "%", "%ff", " HTTP/1.1\r\n", "\r\n", "\n", "\r\n\r\n"),
    *("Content-Length: ", "Content-Length: 9\r\n", "0", "1", "40000", "-1", ": ", "x: y\r\n"),
    *("Authorization: Bearer ", f"Authorization: Bearer {TOKEN}\r\n", "Bearer ", TOKEN),
    *("Transfer-Encoding: chunked\r\n", "a" * 9000, "\x00", "\xff", "\ud800", "\u2028"),
    *("{", "}", "[", "]", '"', ":", ",", "null", "1e999", "-1", "NaN", "true", '"\\ud800"'),
    *('"trainerStatus": ', '"progressPercentage": ', '"metrics": [{"name": "a", "value": "1"}]'),
    *('"estimatedRemainingSeconds": ', '"quietSeconds": ', '"step": ', '"loss": ', '"rank": '),
    *("\x1d", "\x1d", "\x1e", "\x1e"),
)
"""Parts of requests. The last two start another connection, and another packet."""

REPORT = (
    '{"trainerStatus": {"progressPercentage": 45, "metrics": [{"name": "loss", "value": "0.2"}]}}'
)
VALID = (
    f"POST /progress HTTP/1.1\r\nContent-Length: {len(REPORT)}\r\n\r\n{REPORT}",
    "GET /attempt?attempt=0 HTTP/1.1\r\n\r\n",
    "GET /attempt?after=0 HTTP/1.1\r\n\r\n",
    "GET /metrics HTTP/1.1\r\n\r\n",
)


def requests(chance: Any) -> str:
    """Return the requests of some connections, each in some packets."""
    found = []
    for _ in range(chance.choice((1, 1, 2, 5))):
        made = chance.choice(VALID)
        if chance.random() < 0.7:
            made = made.replace("\r\n\r\n", f"\r\nAuthorization: Bearer {TOKEN}\r\n\r\n", 1)
        for _ in range(chance.choice((0, 0, 1, 1, 2, 5))):
            at = chance.randrange(len(made) + 1)
            made = made[:at] + repeated(chance, REQUESTS) + made[at + chance.choice((0, 0, 3)) :]
        found.append(made)
    return "\x1d".join(found)


class Transport:
    """The other end of a connection."""

    def __init__(self, address: str) -> None:
        self.address, self.written, self.is_closed = address, b"", False

    def get_extra_info(self, _: str, default: Any = None) -> Any:
        return (self.address, 1, 0, 0) if self.address else default

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    abort = close
    is_closing = close

    def pause_reading(self) -> None:
        """Do nothing."""


class Loop:
    """An event loop in which time does not pass."""

    def call_later(self, *_: Any) -> Any:
        return SimpleNamespace(cancel=lambda: None)

    def call_soon_threadsafe(self, what: Any, *arguments: Any) -> None:
        what(*arguments)


@target(make=requests)
def pod_requests(text: str) -> None:
    """Whatever a pod or a stranger sends, it is answered or held, and leaves nothing behind."""
    world = World(Random(1))
    labels = {"labels": {"mlgen.dev/job": "mnist"}}
    world.put("ConfigMap", "mnist.status")
    spec = {"completions": 2, "parallelism": 2, "backoffLimit": 9, "suspend": False}
    world.put("Job", WORKER.name, metadata=labels, spec=spec)
    world.advance(world.now + 30)
    world.all("Pod")[0]["metadata"]["uid"] = TOKEN
    world.all("Pod")[0]["status"]["podIPs"] = [{"ip": "10.0.0.1"}]
    supervisor = supervise.Supervisor(JOB, Client(world, Random(1), 0.0, lambda: None), str)
    with mock.patch("asyncio.new_event_loop", Loop):
        serving = server.Server(partial(supervise.answer, JOB, supervisor))
    flaws = watched(serving)
    supervisor.gate.ring = supervisor.reports.ring = lambda: None
    supervisor.gate.wake = serving.wake
    supervisor.reports.tick()
    run(supervisor, world)
    connections = []
    for number, sent in enumerate(text.split("\x1d")):
        transport = Transport(("10.0.0.1", "::ffff:10.0.0.2", "fd00::1")[number % 3])
        connection = server._Connection(serving)  # noqa: SLF001
        connection.connection_made(transport)  # type: ignore[arg-type]
        for packet in sent.split("\x1e"):
            if not transport.is_closed:
                connection.data_received(packet.encode("utf-8", "surrogatepass"))
        connections.append((connection, transport))
        require(serving.buffered <= server.MAX_BUFFERED + len(sent), "keeps", serving.buffered)
    run(supervisor, world)
    run(supervisor, world)
    for connection, transport in connections:
        written = transport.written
        require(not written or written.startswith(b"HTTP/1.1 "), "answers", written[:99])
        require(written.count(b"HTTP/1.1 ") < 2, "answers twice", written[:999])
        connection.connection_lost(None)
    require(not flaws, *flaws)
    left = (serving.buffered, serving.held, serving.shares)
    require(not any(left), "keeps", left)
    require(supervise.status.metrics(JOB, supervisor.data, supervisor.reports.counts), "no metrics")


def run(supervisor: supervise.Supervisor, world: World) -> None:
    """Let a supervisor look at what it has received."""
    for _ in range(4):
        supervisor.step()
        world.advance(world.now + 0.5)


def watched(serving: server.Server) -> list[str]:
    """Return the list of the errors while a server answers, which it would only print."""
    found: list[str] = []
    answer = serving.answer

    def answered(request: server.Request) -> Any:
        try:
            return answer(request)
        except Exception:
            found.append(traceback.format_exc())
            raise

    serving.answer = answered
    return found
