"""Read the logs of one or all replicas, and follow them across restarts of containers and pods.

One `kubectl proxy` reads all logs, because a process for each replica would be too much for 256
ranks. And a `kubectl logs` with a selector does not tell which of its streams has broken.
"""

import heapq
import json
import re
import selectors
import socket
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from itertools import chain
from operator import itemgetter
from time import sleep
from typing import NamedTuple
from urllib.parse import urlencode

from mlgen.kubernetes.objects import Object
from mlgen.live.job import LiveJob
from mlgen.live.kubectl import ClusterError, Kubectl, Outcome, failure
from mlgen.live.logs import (
    Moment,
    Request,
    has_log,
    is_over,
    kept,
    moments,
    no_pod,
    pod_to_read,
    replicas,
    status_of,
    why,
)
from mlgen.live.reasons import FINE, WAIT
from mlgen.live.state import LATE_SECONDS, LogState, snapshots, state
from mlgen.live.watch import PAUSE, PLAIN, Tell, line, patient_snapshots
from mlgen.objects.labels import status_name
from mlgen.output.terminal import safe, some
from mlgen.problems import MlgenError
from mlgen.show.groups import Replica

SILENCE = 20.0
"""Seconds between two reads of the cluster while the logs of all replicas are open."""

LIMIT = 60.0
"""Seconds without a response of the API server before giving up on an existing log."""

MAX_ERRORS = 5
"""Consecutive failures to read an existing log before giving up."""

SIZE = 65536
"""Bytes of a log that are read at once."""

STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d+(Z|[+-]\d\d:\d\d) ")
"""The time at the start of a line from the kubelet. Its own messages have none."""

PATHS = "^/api/v1/namespaces/[^/]+/pods/[^/]+/log$"

PALETTE = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
"""The colors of prefixes (ECMA-48, "Select Graphic Rendition"), without red."""


class LogLine(NamedTuple):
    """A line of a log.

    Attributes:
        replica: the role and the index of the replica, such as `worker-3`.
        rank: the rank of the replica; None if it has none, or if it is unknown.
        text: the line.
    """

    replica: str
    rank: int | None
    text: str


class Stream:
    """The response to a request for a log: an iterator of lists of lines, as they arrive.

    HTTP/1.0 has no chunks, so the log ends when the server closes the connection.
    """

    def __init__(self, server: str, path: str, *, follows: bool) -> None:
        """Send the request.

        Args:
            server: the socket of kubectl.
            path: the path and query of the request.
            follows: True to drop an incomplete last line, because the stream may have broken.

        Raises:
            OSError: kubectl does not respond.
        """
        self.rest = self.started = b""
        self.follows = follows
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(LIMIT)
        try:
            self.socket.connect(server)
            self.socket.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def fileno(self) -> int:
        """Return the descriptor, for `select`."""
        return self.socket.fileno()

    def __iter__(self) -> "Stream":
        return self

    def __next__(self) -> list[str]:
        """Wait for data, and return the complete lines.

        Raises:
            ClusterError: the API server refuses the request.
            OSError: it does not respond.
        """
        data = self.socket.recv(SIZE)
        self.rest += data
        if not self.started:
            head, self.started, body = self.rest.partition(b"\r\n\r\n")
            if not self.started:
                if data:
                    return []
                raise ConnectionError("no response")
            if head.split()[1:2] != [b"200"]:
                raise self._failure(body)
            self.rest = body
        *lines, self.rest = self.rest.split(b"\n")
        if not data:
            if not self.rest or self.follows:
                raise StopIteration
            lines, self.rest = [self.rest], b""
        return [each.decode(errors="replace") for each in lines]

    def _failure(self, body: bytes) -> ClusterError:
        """Return the error in a response, as kubectl prints it."""
        while data := self.socket.recv(SIZE):
            body += data
        text = body.decode(errors="replace").strip()
        try:
            answer = json.loads(text)
            text = f"Error from server ({answer['reason']}): {answer['message']}"
        except (KeyError, TypeError, ValueError):
            pass  # a text from kubectl or a gateway
        return failure(Outcome(1, "", text))


class Run:
    """A run of a container, and the part of its log that is read.

    Attributes:
        pod: the name of its pod.
        stream: the open log, or None.
        ended: True if the container had ended when the stream was opened.
        done: True if the log is read to its end.
        errors: consecutive failures to read it.
    """

    def __init__(self, request: Request, now: Moment, pod: Object, container: str) -> None:
        self.request, self.container = request, container
        self.replica, self.rank = str(now.replica), now.replica.rank
        self.pod, self.namespace = pod["metadata"]["name"], now.snapshot.namespace
        self.stream: Stream | None = None
        self.ended = self.done = False
        self.errors = 0
        # The time of the last line, and the number of lines with it.
        self._stamp, self._count = "", 0
        # The same when the stream was opened.
        self._before, self._skip = "", 0

    def open(self, server: str, **query: str) -> Stream:
        """Request the lines that are not read yet.

        Args:
            server: the socket of kubectl.
            query: parameters of the API.

        Raises:
            ClusterError: kubectl cannot be reached.
        """
        query |= {"container": self.container, "timestamps": "true"}
        self._before, self._skip = self._stamp, self._count
        if found := STAMP.match(f"{self._stamp} "):
            # In seconds, so lines of the same second are repeated.
            query["sinceTime"] = "".join(found.groups())
        else:
            if self.request.tail is not None:
                query["tailLines"] = str(self.request.tail)
            if self.request.since:
                query["sinceSeconds"] = str(max(round(self.request.since), 1))
        path = f"/api/v1/namespaces/{self.namespace}/pods/{self.pod}/log?{urlencode(query)}"
        try:
            self.stream = Stream(server, path, follows="follow" in query)
        except OSError as error:
            raise _cluster_error(error) from None
        return self.stream

    def close(self) -> None:
        """Close the stream."""
        if self.stream:
            self.stream.close()
        self.stream = None

    def new(self, lines: Iterable[str]) -> Iterator[tuple[str, LogLine]]:
        """Yield the time of each line that is not read yet, and the line."""
        for text in lines:
            found = STAMP.match(text)
            stamp = found[0].rstrip() if found else self._stamp
            if stamp < self._before or (stamp == self._before and self._skip):
                self._skip -= stamp == self._before
                continue
            self._count = self._count + 1 if stamp == self._stamp else 1
            self._stamp = stamp
            start = 0 if self.request.timestamps or not found else found.end()
            yield stamp, LogLine(self.replica, self.rank, text[start:])


def read_logs(
    kubectl: Kubectl, request: Request, tell: Tell, *, follow: bool = False
) -> Generator[LogLine, None, None]:
    """Yield the lines of logs: the current ones in the order of time, or all until the end.

    Args:
        kubectl: reads the cluster.
        request: the logs to read.
        tell: prints a line about the progress, such as the reason for waiting.
        follow: True to continue until the replicas, their Jobs or the training have ended.

    Raises:
        MlgenError: the job does not exist in the cluster, there is no log, or it cannot be read.
    """
    return Follower(kubectl, request, tell).lines() if follow else _current(kubectl, request, tell)


def _current(kubectl: Kubectl, request: Request, tell: Tell) -> Generator[LogLine, None, None]:
    """Yield the lines of the logs that exist, merged by time, after those that are only kept."""
    found = moments(snapshots(kubectl, [request.job])[0], request)
    if last := kept(request, found):
        yield from _kept_lines(request, *last, tell)
        found.remove(last[0])
    if not found:
        return
    runs, without = _runs(found, request)
    if without:
        tell(f"no log: {some(without, 5)}")

    def lines(run: Run) -> Iterator[tuple[str, LogLine]]:
        try:
            yield from run.new(chain.from_iterable(run.stream or ()))
        except (ClusterError, OSError) as error:
            if len(runs) == 1:
                raise _cluster_error(error) from None
            tell(f"{run.pod}: {_cluster_error(error).message}")

    with kubectl.proxy(PATHS) as server, ExitStack() as stack:
        for run, query in runs:
            stack.enter_context(closing(run.open(server, **query)))
        for _, each in heapq.merge(*(lines(run) for run, _ in runs), key=itemgetter(0)):
            yield each


def _kept_lines(request: Request, now: Moment, log: LogState, tell: Tell) -> Iterator[LogLine]:
    """Yield the last lines of a pod that is gone."""
    name = status_name(request.job.name)
    tell(f"{log.pod} is gone; its last lines, which ConfigMap {name} keeps:")
    for text in deque(log.lines, request.tail):
        yield LogLine(str(now.replica), now.replica.rank, safe(text))


def _runs(
    found: Iterable[Moment], request: Request
) -> tuple[list[tuple[Run, dict[str, str]]], list[str]]:
    """Return the runs to read, each with parameters of the API, and the replicas without a log.

    Raises:
        MlgenError: there is no log.
    """
    runs, errors = [], {}
    for now in found:
        try:
            pod, is_previous = pod_to_read(now, request)
        except MlgenError as error:
            errors[str(now.replica)] = error
        else:
            query = {"previous": "true"} if is_previous else {}
            runs.append((Run(request, now, pod, now.container), query))
    if not runs:
        raise next(iter(errors.values()))
    return runs, list(errors)


def _cluster_error(error: ClusterError | OSError) -> ClusterError:
    if isinstance(error, ClusterError):
        return error
    if isinstance(error, TimeoutError):
        return ClusterError("the API server does not respond", "unreachable")
    return ClusterError(f"kubectl proxy failed: {error.strerror or error}", "other")


class Follower:
    """Follows the logs of replicas. Reads ahead only a part of each log."""

    def __init__(self, kubectl: Kubectl, request: Request, tell: Tell) -> None:
        """Prepare to follow. The arguments are those of `read_logs`."""
        self.kubectl, self.request, self.tell = kubectl, request, tell
        # Only for one replica, reasons and restarts are told in detail.
        self.is_one = len(request.replicas) == 1
        # By the pod's UID, the container, and its restart count.
        self.runs: dict[tuple[str, str, int], Run] = {}
        # UIDs of the pods that had been replaced at the first look.
        self.skipped: set[str] | None = None
        self.server = ""
        self.selector = selectors.DefaultSelector()
        # The last status line, and the UID of the pod that was opened last.
        self.told = self.last = ""

    def lines(self) -> Generator[LogLine, None, None]:
        """Yield the lines until the replicas, their Jobs or the training have ended.

        Raises:
            MlgenError: the job does not exist in the cluster, or cannot be read.
        """
        found = self._look()
        if not found[0].snapshot.exists:
            raise no_pod(found[0].snapshot, self.request, found[0].replica)
        with self.kubectl.proxy(PATHS) as self.server, self.selector:
            try:
                while True:
                    is_last = self._is_last(found)
                    self._open(found)
                    if not (is_last and self.is_one):
                        self._say(found)
                    yield from self._arrived(is_last=is_last)
                    if is_last and not self._is_unread():
                        return
                    found = self._look()
            finally:
                for run in self.runs.values():
                    run.close()

    def _look(self) -> list[Moment]:
        snapshot = patient_snapshots(self.kubectl, [self.request.job], self.tell)[0]
        return moments(snapshot, self.request)

    def _is_last(self, found: list[Moment]) -> bool:
        """Return whether no log will be written after those of these pods."""
        snapshot = found[0].snapshot
        if not snapshot.exists:
            return True
        job = state(snapshot)
        # A replica that nobody stops, such as a parameter server, runs on after the end.
        is_late = job.ended and snapshot.now > job.since + LATE_SECONDS
        return is_late or all(
            is_over(now, self.request) or (job.ended and not now.runs) for now in found
        )

    def _is_unread(self) -> bool:
        """Return whether a container has ended whose log is not read to its end."""
        return any(run.ended and not run.done for run in self.runs.values())

    def _open(self, found: list[Moment]) -> None:
        """Open the logs that are not read to their end, in the order of the pods of a replica.

        The log of a container that has ended is opened again, because a stream may have broken.
        """
        request = self.request
        if self.skipped is None:
            self.skipped = {pod["metadata"]["uid"] for now in found for pod in now.pods[1:]}
        else:
            request = request._replace(tail=None, since=0.0)
        present = {pod["metadata"]["uid"] for now in found for pod in now.pods}
        self.runs = {key: run for key, run in self.runs.items() if key[0] in present or run.stream}
        for now in found:
            pods = [pod for pod in reversed(now.pods) if pod["metadata"]["uid"] not in self.skipped]
            for pod in pods:
                run, query = self._run(now, pod, request)
                has_ended = "follow" not in query
                if run and not run.done and (not run.stream or (has_ended and not run.ended)):
                    self._close(run)
                    run.ended = has_ended
                    stream = run.open(self.server, **query)
                    self.selector.register(stream, selectors.EVENT_READ, run)
                if run and has_ended and not run.done:
                    break

    def _run(self, now: Moment, pod: Object, request: Request) -> tuple[Run | None, dict[str, str]]:
        """Return the run in a pod to read next, or None, and the parameters of the API."""
        container, status = now.container, status_of(pod, now.container)
        if self.is_one and not has_log(status):
            container, status = WAIT, status_of(pod, WAIT)
            status = status if "running" in status.get("state", {}) else {}
        if not has_log(status):
            return None, {}
        uid, number = pod["metadata"]["uid"], int(status["restartCount"])
        query = {"follow": "true"} if "running" in status["state"] else {}
        before = self.runs.get((uid, container, number - 1))
        if before and not before.done:
            number, query = number - 1, {"previous": "true"}
        key = (uid, container, number)
        if key not in self.runs:
            self.runs[key] = Run(request, now, pod, container)
            self._say_new(now, key, pod)
        return self.runs[key], query

    def _arrived(self, *, is_last: bool) -> Iterator[LogLine]:
        """Yield lines until it is time to look again, or no more can follow."""
        looked = time.monotonic()
        while True:
            count = len(self.selector.get_map())
            is_end = is_last and not self._is_unread()
            pause = SILENCE if count >= len(self.request.replicas) else PAUSE
            left = 0.0 if is_end else looked + pause - time.monotonic()
            if left <= 0 and not is_end:
                return
            if not count and left:
                sleep(left)
                return
            for key, _ in self.selector.select(left) if count else ():
                yield from self._read(key.data)
            if is_end:
                return

    def _read(self, run: Run) -> Iterator[LogLine]:
        """Yield the next lines of a log, and close it at its end."""
        try:
            lines = next(run.stream or iter(()), None)
        except (ClusterError, OSError) as error:
            self._close(run)
            self._failed(run, error)
            return
        run.errors = 0
        if lines is None:
            self._close(run)
            run.done = run.ended
        for _, each in run.new(lines or ()):
            if run.container == WAIT != self.request.container:
                self.tell(f"{run.pod}: {each.text}")
            else:
                yield each

    def _close(self, run: Run) -> None:
        if run.stream:
            self.selector.unregister(run.stream)
        run.close()

    def _failed(self, run: Run, error: ClusterError | OSError) -> None:
        """Give up a log after several failures.

        Raises:
            ClusterError: the only log cannot be read, or the user may not read logs.
        """
        run.errors += 1
        error = _cluster_error(error)
        # There is no such pod, or no previous container.
        is_gone = "(NotFound)" in error.message or "(BadRequest)" in error.message
        run.done = is_gone or run.errors > MAX_ERRORS
        if error.cause == "forbidden" or (self.is_one and run.done and not is_gone):
            raise error
        if run.done and not is_gone:
            self.tell(f"{run.pod}: {error.message}")

    def _say_new(self, now: Moment, key: tuple[str, str, int], pod: Object) -> None:
        """Tell that the container has restarted, or that the replica has a new pod."""
        uid, container, restarts = key
        if not self.is_one or container != now.container:
            return
        if self.last:
            what = f"restart {restarts} in" if self.last == uid else "new pod"
            self.tell(f"{now.replica}: {what} {pod['metadata']['name']}")
        self.last, self.told = uid, ""

    def _say(self, found: list[Moment]) -> None:
        """Tell the reason for waiting, or the state of the job for several replicas."""
        now = found[0]
        if not self.is_one:
            text = line(state(now.snapshot))
        elif now.runs:
            return
        elif now.pods:
            reason = why(now)
            if reason in FINE:
                return
            text = f"{now.pods[0]['metadata']['name']}: {reason}"
        else:
            text = f"{now.replica} has no pod yet: the job is {state(now.snapshot).phase}"
        if text != self.told:
            self.told = text
            self.tell(text)


def prefixes(job: LiveJob, chosen: Iterable[Replica], *, color: bool) -> Mapping[str, str]:
    """Return the prefix of the lines of each replica: its rank, or else its role and index.

    The color of a replica does not depend on which others are chosen.
    """
    order = {str(each): number for number, each in enumerate(replicas(job))}
    own = {str(each): each.rank for each in chosen}
    are_ranks = None not in own.values()
    labels = {name: str(rank) if are_ranks else name for name, rank in own.items()}
    width = max(map(len, labels.values()))
    found = {name: f"{label:{width}} |" for name, label in labels.items()}
    if not color:
        return {name: f"{text} " for name, text in found.items()}
    codes = {name: PALETTE[order.get(name, 0) % len(PALETTE)] for name in found}
    return {name: f"\x1b[{codes[name]}m{text}{PLAIN} " for name, text in found.items()}
