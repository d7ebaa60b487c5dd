"""Run kubectl. No other module of mlgen does.

kubectl chooses the context, credentials and default namespace as usual.
"""

import contextlib
import json
import math
import subprocess
import tempfile
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

from mlgen.kubernetes.objects import Object
from mlgen.problems import MlgenError, Problem
from mlgen.resources import table

CAUSES: dict[str, Any] = table("kubernetes/kubectl")
"""Causes of a kubectl failure, with texts and hints."""

NO_SERVER = ("no contact", "no context")
"""Causes of a failed first contact. It is not repeated."""

TIMEOUT = "--request-timeout=60s"
"""Without this option, kubectl waits forever for an API server that does not respond."""

LEAST = 2.0
"""Seconds that kubectl gets after the deadline, for a last read."""

CONTACT_SECONDS = 4.0
"""Seconds until the first response of the API server, which may need a credential plugin. kubectl
does not bound a plugin, so it is then stopped."""

CONFIG_SECONDS = 1.0
"""Seconds to read the address of the API server afterwards, for the message."""

STOP_SECONDS = 1.0
"""Seconds that kubectl gets to end. Then it is killed."""

POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""The file with the namespace of a pod."""

QUESTION = " - did you specify the right host or port?"

LOG_PREFIXES = ("E0", "E1", "W0", "W1", "I0", "I1")
"""Prefixes of klog lines: severity and month."""


class ClusterError(MlgenError):
    """kubectl is not installed or fails, or a timeout has passed.

    Attributes:
        cause: `forbidden`, `missing` (kubectl), `no contact`, `no context`, `timeout`,
            `unreachable` or `other`.
        message: the reason, in one line.
    """

    def __init__(self, message: str, cause: str) -> None:
        self.cause, self.message = cause, message
        super().__init__([Problem((), message, "kubectl", CAUSES[cause]["hint"])])


class Outcome(NamedTuple):
    """The exit status and output of kubectl."""

    status: int
    stdout: str
    stderr: str

    @property
    def message(self) -> str:
        """The error in one line, without the retries that the client library logs.

        kubectl's question at the end is left out, because a hint follows.
        """
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if not line.startswith(LOG_PREFIXES)]
        kept = dict.fromkeys(errors or lines or ["no error message"])
        return " ".join(kept).removeprefix("error: ").removesuffix(QUESTION)

    @property
    def is_answer(self) -> bool:
        """True if the API server responded, even with an error."""
        answered = "Error from server" in self.stderr or self.cause == "forbidden"
        return not self.status or answered

    @property
    def cause(self) -> str:
        """The cause of the failure according to its message, as a key of CAUSES."""
        causes = ("forbidden", "unreachable")
        found = (name for name in causes for text in CAUSES[name]["texts"] if text in self.stderr)
        return next(found, "other")


@dataclass(frozen=True)
class Kubectl:
    """The kubectl on the PATH.

    Attributes:
        context: a context of the kubeconfig; "" for the current one.
        kubeconfig: the path of a kubeconfig; "" for kubectl's default.
        deadline: the time of `time.monotonic` at which `outcome` stops kubectl. kubectl itself
            repeats requests after their timeout, and waits for programs that return credentials.
        contacted: set once the API server has responded. Copies share it.
        contacting: held during the first contact.
    """

    context: str = ""
    kubeconfig: str = ""
    deadline: float = math.inf
    contacted: threading.Event = field(default_factory=threading.Event, compare=False, repr=False)
    contacting: threading.Lock = field(default_factory=threading.Lock, compare=False, repr=False)

    @property
    def left(self) -> float:
        """The seconds until the deadline."""
        return max(self.deadline - time.monotonic(), 0.0)

    def command(self, *words: str, namespace: str | None = None) -> list[str]:
        """Return the argument list of a kubectl command."""
        pairs = {"--kubeconfig": self.kubeconfig, "--context": self.context, "-n": namespace}
        options = [word for name, value in pairs.items() if value for word in (name, value)]
        return ["kubectl", *options, *words]

    def outcome(
        self, *words: str, namespace: str | None = None, stdin: str | None = None
    ) -> Outcome:
        """Run kubectl and return its exit status and output, after the first contact.

        Raises:
            ClusterError: kubectl cannot be started, does not end by the deadline, or has never
                reached the API server.
        """
        self._contact()
        timeout = None if self.deadline == math.inf else max(self.left, LEAST)
        with self._started(*words, TIMEOUT, namespace=namespace) as process:
            outcome = _ended(process, timeout, stdin)
        if outcome is None:
            raise ClusterError("the API server does not respond", "unreachable")
        return outcome

    def _contact(self) -> None:
        """Request the version of the API server, unless it has responded before.

        Later requests may take longer, and are repeated while the server is unreachable.

        Raises:
            ClusterError: kubectl cannot be started, or does not reach the API server.
        """
        with self.contacting:  # other threads wait for the first contact
            if not self.contacted.is_set():
                self._first_contact()

    def _first_contact(self) -> None:
        seconds = min(CONTACT_SECONDS, max(self.left, LEAST))
        limit = f"--request-timeout={CONTACT_SECONDS:.0f}s"
        with self._started("get", "--raw", "/version", limit) as process:
            outcome = _ended(process, seconds)
        if outcome and outcome.is_answer:
            self.contacted.set()
        elif outcome and outcome.cause != "unreachable":
            raise failure(outcome)
        else:
            server = self._server()
            message = f"cannot reach the API server {server}".rstrip()
            reason = outcome.message if outcome else "it does not respond"
            cause = "no contact" if server else "no context"
            is_over = outcome is None and seconds < CONTACT_SECONDS  # the caller's deadline
            raise ClusterError(f"{message}: {reason}", "unreachable" if is_over else cause)

    def _server(self) -> str:
        """Return the address of the API server and its context; "" if there is no context."""
        path = "jsonpath={.clusters[0].cluster.server} of the context {.current-context}"
        with self._started("config", "view", "--minify", "-o", path) as process:
            outcome = _ended(process, CONFIG_SECONDS)
        if outcome is None:
            return f"of the context {self.context}" if self.context else "of the current context"
        return "" if outcome.status else outcome.stdout.strip()

    @contextlib.contextmanager
    def _started(
        self, *words: str, namespace: str | None = None, errors: int | IO[str] = subprocess.PIPE
    ) -> "Generator[subprocess.Popen[str]]":
        """Start kubectl, and stop it at the end if it still runs.

        Raises:
            ClusterError: kubectl cannot be started.
        """
        try:
            process = subprocess.Popen(  # noqa: S603 - kubectl from the user's PATH
                self.command(*words, namespace=namespace),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                errors="replace",
            )
        except OSError as error:
            raise ClusterError(f"kubectl cannot be run: {error.strerror}", "missing") from None
        with process:
            try:
                yield process
            finally:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(STOP_SECONDS)
                process.kill()

    def text(self, *words: str, namespace: str | None = None, stdin: str | None = None) -> str:
        """Run kubectl and return its stdout.

        Raises:
            ClusterError: kubectl is not installed, or fails.
        """
        outcome = self.outcome(*words, namespace=namespace, stdin=stdin)
        if outcome.status:
            raise failure(outcome)
        return outcome.stdout

    def default_namespace(self) -> str:
        """Return the namespace that kubectl uses without `-n`, also in a pod without a context.

        Raises:
            ClusterError: kubectl is not installed, or does not reach the API server.
        """
        words = ("config", "view", "--minify", "-o", "jsonpath={..namespace}")
        outcome = self.outcome(*words)
        if not outcome.status:
            return outcome.stdout.strip() or "default"
        return POD_NAMESPACE.read_text().strip() if POD_NAMESPACE.exists() else "default"

    def objects(
        self, *words: str, namespace: str | None = None, stdin: str | None = None
    ) -> list[Object]:
        """Run a command with `-o json` and return the printed objects; [] if there are none.

        Raises:
            ClusterError: kubectl is not installed, or fails.
        """
        text = self.text(*words, "-o", "json", namespace=namespace, stdin=stdin)
        return parsed(text)

    def readable(self, *words: str, namespace: str | None = None) -> list[Object] | None:
        """Return objects; None if the user may not read them.

        Raises:
            ClusterError: kubectl is not installed, or fails for another reason.
        """
        try:
            return self.objects(*words, namespace=namespace)
        except ClusterError as error:
            if error.cause != "forbidden":
                raise
            return None

    def permitted(self, *words: str, namespace: str | None = None) -> list[Object]:
        """Return the objects of several kinds, without the kinds that the user may not read.

        Raises:
            ClusterError: kubectl is not installed, or fails for another reason.
        """
        outcome = self.outcome(*words, "-o", "json", namespace=namespace)
        if outcome.status and outcome.cause != "forbidden":
            raise failure(outcome)
        return parsed(outcome.stdout)

    def lines(self, *words: str, stdin: str) -> Generator[str, None, None]:
        """Run kubectl and yield the lines of its stdout. Closing the generator stops kubectl.

        Raises:
            ClusterError: kubectl is not installed, or failed (raised after the last line).
        """
        self._contact()
        with tempfile.TemporaryFile("w+") as errors:
            with self._started(*words, errors=errors) as process:
                threading.Thread(target=_write, args=(process, stdin), daemon=True).start()
                for text in process.stdout or ():
                    yield text.rstrip("\n")
                status = process.wait()
            if status:
                errors.seek(0)
                raise failure(Outcome(status, "", errors.read()))

    @contextlib.contextmanager
    def proxy(self, paths: str) -> Generator[str, None, None]:
        """Serve a part of the API at a Unix socket, and yield the name of the socket.

        One kubectl serves any number of requests. Only this user can open the socket.

        Args:
            paths: a pattern of the paths that are served.

        Raises:
            ClusterError: kubectl is not installed, or fails.
        """
        self._contact()
        with (
            tempfile.TemporaryDirectory(prefix="mlgen-") as folder,
            Path(folder, "errors").open("w+") as errors,
        ):
            options = (f"--unix-socket={folder}/api", f"--accept-paths={paths}")
            with self._started("proxy", "--append-server-path", *options, errors=errors) as process:
                if not (process.stdout and process.stdout.readline()):
                    errors.seek(0)
                    raise failure(Outcome(1, "", errors.read()))
                yield f"{folder}/api"


def _ended(
    process: "subprocess.Popen[str]", seconds: float | None, stdin: str | None = None
) -> Outcome | None:
    """Return the outcome of a process; None if it has not ended after some seconds."""
    try:
        stdout, stderr = process.communicate(stdin or "", seconds)
    except subprocess.TimeoutExpired:
        return None
    return Outcome(process.returncode, stdout, stderr)


def _write(process: "subprocess.Popen[str]", text: str) -> None:
    """Write a text to a process's stdin, and close it."""
    with contextlib.suppress(OSError, ValueError):  # the process has ended
        if process.stdin:
            process.stdin.write(text)
            process.stdin.close()


def parsed(text: str) -> list[Object]:
    """Return the objects in kubectl's JSON: concatenated objects, or a List.

    Raises:
        ClusterError: it has another shape.
    """
    objects: list[Object] = []
    while text := text.lstrip():
        try:
            item, end = json.JSONDecoder().raw_decode(text)
            items = item["items"] if item["kind"] == "List" or "items" in item else [item]
            if not all(isinstance(each, dict) for each in items):
                raise TypeError("an item is no object")
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise ClusterError(f"kubectl printed no objects: {error!r}", "other") from None
        objects += items
        text = text[end:]
    return objects


def failure(outcome: Outcome) -> ClusterError:
    """Return the exception for a failed run."""
    return ClusterError(f"kubectl failed: {outcome.message}", outcome.cause)


def identity(item: Any) -> Object:
    """Return the fields that identify an object: API version, kind, name and namespace.

    kubectl ignores the namespace for cluster-scoped kinds.
    """
    names = ("name", "namespace")
    metadata = {name: item["metadata"][name] for name in names if item["metadata"].get(name)}
    return {"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": metadata}


def listed(items: Any) -> str:
    """Return a List of objects as JSON, for `kubectl -f -`."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)})
