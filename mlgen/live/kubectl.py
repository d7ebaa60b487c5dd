"""Run kubectl: the one place in mlgen that does.

Context, credentials and default namespace are those of kubectl itself.
"""

import contextlib
import json
import queue
import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from mlgen.kubernetes.objects import Object
from mlgen.problems import MlgenError, Problem

Cause = Literal["missing", "unreachable", "forbidden", "other"]
"""Why kubectl failed: it is not installed, nothing answers, the rights do not allow it, or else."""

TIMEOUT = "--request-timeout=60s"
"""Without it, kubectl waits for ever for an API server that does not answer."""

SILENCE = 20.0
"""Seconds without a line after which a reader is asked whether to go on."""

LOG_PREFIXES = ("E0", "E1", "W0", "W1", "I0", "I1")
"""How klog lines begin: the severity and the month."""

UNREACHABLE = (
    "Unable to connect to the server",
    "The connection to the server",
    "connection refused",
    "connect: no route to host",
    "i/o timeout",
    "TLS handshake timeout",
    "Client.Timeout exceeded",
    "http2: client connection lost",
    "unexpected EOF",
    "(ServiceUnavailable)",
    "(InternalError)",
    "(TooManyRequests)",
    "(Timeout)",
    "the server is currently unable to handle the request",
    "etcdserver: ",
)
"""What kubectl writes when the API server does not answer, or not now (client-go's net errors and
k8s.io/apimachinery/pkg/api/errors)."""

FORBIDDEN = ("(Forbidden)", "(Unauthorized)", "You must be logged in to the server")

HINTS: dict[Cause, str] = {
    "missing": "install kubectl",
    "unreachable": "check the context: kubectl config current-context",
    "forbidden": "ask for the right, or use another context",
    "other": "fix the cause",
}


class KubectlError(MlgenError):
    """kubectl has failed; `cause` tells whether a second try may help."""

    def __init__(self, message: str, cause: Cause) -> None:
        self.cause: Cause = cause
        self.message = message
        super().__init__([Problem((), message, "kubectl", HINTS[cause])])


@dataclass(frozen=True)
class Outcome:
    """What a run of kubectl has returned."""

    status: int
    stdout: str
    stderr: str

    @property
    def message(self) -> str:
        """The error in one line, without the retries that the client library logs."""
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if not line.startswith(LOG_PREFIXES)]
        return " ".join(errors or lines or ["no error message"]).removeprefix("error: ")

    @property
    def cause(self) -> Cause:
        """Why it failed, as far as its message tells."""
        if any(text in self.stderr for text in FORBIDDEN):
            return "forbidden"
        return "unreachable" if any(text in self.stderr for text in UNREACHABLE) else "other"


@dataclass(frozen=True)
class Kubectl:
    """kubectl, as found on the PATH.

    Attributes:
        context: a context of the kubeconfig; "" for the current one.
        kubeconfig: the path of a kubeconfig; "" for kubectl's default.
    """

    context: str = ""
    kubeconfig: str = ""

    def command(self, *words: str, namespace: str | None = None) -> list[str]:
        """Return the words of a command."""
        options = []
        if self.kubeconfig:
            options += ["--kubeconfig", self.kubeconfig]
        if self.context:
            options += ["--context", self.context]
        if namespace:
            options += ["-n", namespace]
        return ["kubectl", *options, *words]

    def outcome(
        self, *words: str, namespace: str | None = None, stdin: str | None = None
    ) -> Outcome:
        """Run kubectl and return its exit status and output.

        Raises:
            KubectlError: kubectl is not installed.
        """
        try:
            process = subprocess.run(  # noqa: S603 - kubectl from the user's PATH
                self.command(*words, TIMEOUT, namespace=namespace),
                input=stdin,
                stdin=subprocess.DEVNULL if stdin is None else None,
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError as error:
            raise _not_installed(error) from None
        return Outcome(process.returncode, process.stdout, process.stderr)

    def text(self, *words: str, namespace: str | None = None, stdin: str | None = None) -> str:
        """Run kubectl and return its stdout.

        Raises:
            KubectlError: kubectl is not installed, or fails.
        """
        outcome = self.outcome(*words, namespace=namespace, stdin=stdin)
        if outcome.status:
            raise failure(outcome)
        return outcome.stdout

    def objects(
        self, *words: str, namespace: str | None = None, stdin: str | None = None
    ) -> list[Object]:
        """Run a command with `-o json` and return the objects that it prints; [] if nothing.

        Raises:
            KubectlError: kubectl is not installed, or fails.
        """
        text = self.text(*words, "-o", "json", namespace=namespace, stdin=stdin)
        return parsed(text)

    def readable(self, *words: str, namespace: str | None = None) -> list[Object] | None:
        """Return objects; None if the rights do not allow to read them.

        Raises:
            KubectlError: kubectl is not installed, or fails otherwise.
        """
        try:
            return self.objects(*words, namespace=namespace)
        except KubectlError as error:
            if error.cause != "forbidden":
                raise
            return None

    @contextmanager
    def lines(
        self, *words: str, namespace: str | None = None, silence: float = SILENCE
    ) -> Iterator[Iterator[str | None]]:
        """Run kubectl, and provide the lines of its stdout while it runs; then end it.

        None stands for some seconds without a line, after which the reader may give up: kubectl
        does not notice that the node which it reads from is lost.

        Raises:
            KubectlError: kubectl is not installed; or it has failed, once all lines were read.
        """
        command = self.command(*words, namespace=namespace)
        try:
            process = subprocess.Popen(  # noqa: S603 - kubectl from the user's PATH
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
        except OSError as error:
            raise _not_installed(error) from None
        with process:
            try:
                yield _until_the_end(process, silence)
            finally:
                process.terminate()


def _until_the_end(process: "subprocess.Popen[str]", silence: float) -> Iterator[str | None]:
    """Yield the lines of a process, without their ends, and None for each time of silence."""
    found: queue.Queue[str | None] = queue.Queue(maxsize=1000)
    if not process.stdout or not process.stderr:  # pragma: no cover - both are pipes
        return
    threading.Thread(target=_read, args=(process.stdout, found), daemon=True).start()
    while True:
        try:
            text = found.get(timeout=silence)
        except queue.Empty:
            yield None
            continue
        if text is None:
            break
        yield text
    # kubectl writes an error only when it ends.
    errors = process.stderr.read()
    if process.wait():
        raise failure(Outcome(process.returncode, "", errors))


def _read(stream: Iterable[str], found: "queue.Queue[str | None]") -> None:
    """Put each line of a stream into a queue, and None at its end."""
    with contextlib.suppress(ValueError):  # the stream is closed
        for text in stream:
            found.put(text.rstrip("\n"))
    found.put(None)


def parsed(text: str) -> list[Object]:
    """Return the objects in kubectl's JSON: one after the other, or a List."""
    decoder, objects, start = json.JSONDecoder(), list[Object](), 0
    text = text.strip()
    while start < len(text):
        item, end = decoder.raw_decode(text, start)
        objects += item["items"] if item["kind"] == "List" else [item]
        start = end + len(text[end:]) - len(text[end:].lstrip())
    return objects


def failure(outcome: Outcome) -> KubectlError:
    """Return the error of a run that has failed."""
    return KubectlError(f"kubectl failed: {outcome.message}", outcome.cause)


def _not_installed(error: OSError) -> KubectlError:
    return KubectlError(f"kubectl cannot be run: {error.strerror}", "missing")


def identity(item: Any) -> Object:
    """Return the fields by which kubectl finds an object.

    kubectl ignores the namespace of an object whose kind has none.
    """
    names = ("name", "namespace")
    metadata = {name: item["metadata"][name] for name in names if item["metadata"].get(name)}
    return {"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": metadata}


def listed(items: Any) -> str:
    """Return a List of objects as JSON, for `kubectl -f -`."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)})
