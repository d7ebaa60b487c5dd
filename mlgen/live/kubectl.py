"""Run kubectl. No other module of mlgen does.

kubectl chooses the context, credentials and default namespace as usual.
"""

import contextlib
import json
import math
import queue
import subprocess
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from mlgen.kubernetes.objects import Object
from mlgen.problems import MlgenError, Problem
from mlgen.resources import table

CAUSES: dict[str, Any] = table("kubernetes/kubectl")
"""Causes of a kubectl failure (missing, unreachable, forbidden, other), with texts and hints."""

TIMEOUT = "--request-timeout=60s"
"""Without this option, kubectl waits forever for an API server that does not respond."""

LEAST = 2.0
"""Seconds that kubectl gets after the deadline, for a last read."""

SILENCE = 20.0
"""Seconds without a line after which `Kubectl.lines` yields None."""

LOG_PREFIXES = ("E0", "E1", "W0", "W1", "I0", "I1")
"""Prefixes of klog lines: severity and month."""


class KubectlError(MlgenError):
    """kubectl failed. `cause` is a key of CAUSES."""

    def __init__(self, message: str, cause: str) -> None:
        self.cause, self.message = cause, message
        super().__init__([Problem((), message, "kubectl", CAUSES[cause]["hint"])])


@dataclass(frozen=True)
class Outcome:
    """The exit status and output of kubectl."""

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
    """

    context: str = ""
    kubeconfig: str = ""
    deadline: float = math.inf

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
        """Run kubectl and return its exit status and output.

        Raises:
            KubectlError: kubectl cannot be started, or does not end by the deadline.
        """
        try:
            process = subprocess.run(  # noqa: S603 - kubectl from the user's PATH
                self.command(*words, TIMEOUT, namespace=namespace),
                input=stdin or "",
                capture_output=True,
                text=True,
                check=False,
                timeout=None if self.deadline == math.inf else max(self.left, LEAST),
            )
        except OSError as error:
            raise _not_installed(error) from None
        except subprocess.TimeoutExpired:
            raise KubectlError("the API server does not respond", "unreachable") from None
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
        """Run a command with `-o json` and return the printed objects; [] if there are none.

        Raises:
            KubectlError: kubectl is not installed, or fails.
        """
        text = self.text(*words, "-o", "json", namespace=namespace, stdin=stdin)
        return parsed(text)

    def readable(self, *words: str, namespace: str | None = None) -> list[Object] | None:
        """Return objects; None if the user may not read them.

        Raises:
            KubectlError: kubectl is not installed, or fails for another reason.
        """
        try:
            return self.objects(*words, namespace=namespace)
        except KubectlError as error:
            if error.cause != "forbidden":
                raise
            return None

    def lines(self, *words: str, namespace: str | None = None) -> Generator[str | None, None, None]:
        """Run kubectl and yield the lines of its stdout. Closing the generator stops kubectl.

        Yields None after each SILENCE seconds without a line, so that the reader can give up:
        kubectl does not notice that the node it reads from is lost.

        Raises:
            KubectlError: kubectl is not installed, or failed (raised after the last line).
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
        found: queue.Queue[str] = queue.Queue(maxsize=1000)
        with process:
            try:
                threading.Thread(target=_read, args=(process, found), daemon=True).start()
                while (text := _next(found)) != "":
                    yield text and text.rstrip("\n")
                # kubectl writes an error only when it ends.
                errors = process.communicate()[1]
                if process.returncode:
                    raise failure(Outcome(process.returncode, "", errors))
            finally:
                process.terminate()


def _read(process: "subprocess.Popen[str]", found: "queue.Queue[str]") -> None:
    """Put each line of a process's stdout into a queue, and "" at the end."""
    with contextlib.suppress(ValueError):  # the stream is closed
        for text in process.stdout or ():
            found.put(text)
    found.put("")


def _next(found: "queue.Queue[str]") -> str | None:
    """Return the next line, "" at the end, or None after SILENCE seconds without a line."""
    try:
        return found.get(timeout=SILENCE)
    except queue.Empty:
        return None


def parsed(text: str) -> list[Object]:
    """Return the objects in kubectl's JSON: concatenated objects, or a List."""
    objects: list[Object] = []
    while text := text.lstrip():
        item, end = json.JSONDecoder().raw_decode(text)
        objects += item["items"] if item["kind"] == "List" else [item]
        text = text[end:]
    return objects


def failure(outcome: Outcome) -> KubectlError:
    """Return the exception for a failed run."""
    return KubectlError(f"kubectl failed: {outcome.message}", outcome.cause)


def _not_installed(error: OSError) -> KubectlError:
    return KubectlError(f"kubectl cannot be run: {error.strerror}", "missing")


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
