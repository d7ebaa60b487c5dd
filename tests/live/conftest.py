"""A cluster that answers kubectl from recordings of a real one.

A recording is a moment of a job: the output of `kubectl get` without the fields that mlgen does not
read, the warnings among the events, and the time.
"""

import json
import re
import time
from contextlib import contextmanager
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from tempfile import TemporaryDirectory
from threading import Thread
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

import pytest
from click.testing import CliRunner

from mlgen.cli import main
from mlgen.live import delete, ranks, watch
from mlgen.live.kubectl import Kubectl, Outcome

HERE = Path(__file__).parent


def recording(name):
    return json.loads((HERE / f"recorded/{name}.json").read_text())


def printed(objects):
    """kubectl's output for objects with `-o json`."""
    return json.dumps({"kind": "List", "items": objects})


class Cluster:
    """Replaces kubectl. `calls` are its command lines, without the common options."""

    def __init__(self):
        self.objects, self.events, self.calls, self.deleted = [], [], [], []
        self.requests = []
        """The command line, the namespace and stdin of each call."""
        self.answers = {}
        """Objects, or an Outcome, by the first words of a command."""
        self.logs = {}
        """Log lines by pod and container. A callable item is called instead of printed."""
        self.steps = []
        """The next recordings, one for each `sleep`."""
        self.refused = set()
        """Verbs and resources that a review denies."""

    def show(self, name):
        """Switch to a recorded moment."""
        moment = recording(name)
        self.objects, self.events, self.now = moment["objects"], moment["events"], moment["now"]

    def sleep(self, _seconds=0):
        if not self.steps:
            raise AssertionError("nothing more is recorded")
        step = self.steps.pop(0)
        if callable(step):
            step()
        else:
            self.show(step)

    def outcome(self, *words, namespace=None, stdin=None):
        self.calls.append(" ".join(words))
        self.requests.append((" ".join(words), namespace, stdin))
        for first, answer in self.answers.items():
            if " ".join(words).startswith(first):
                found = answer() if callable(answer) else answer
                return found if isinstance(found, Outcome) else Outcome(0, printed(found), "")
        return Outcome(0, self._text(words, stdin), "")

    def _text(self, words, stdin):
        if words[0] == "delete":
            self.deleted += json.loads(stdin)["items"]
            names = {(item["kind"], item["metadata"]["name"]) for item in self.deleted}
            self.objects = [
                item
                for item in self.objects
                if (item["kind"], item["metadata"]["name"]) not in names
            ]
            return ""
        if words[0] == "create":
            return "\n".join(map(self._reviewed, json.loads(stdin)["items"]))
        if words[:3] == ("get", "-f", "-"):
            asked = {(i["kind"], i["metadata"]["name"]) for i in json.loads(stdin)["items"]}
            objects = [i for i in self.objects if (i["kind"], i["metadata"]["name"]) in asked]
            return printed(objects)
        if words[1] == "events":
            return printed(self.events)
        if "-l" in words:
            objects = self._selected(words[words.index("-l") + 1])
            if words[-1] != "name":
                return printed(objects)
            pods = [item for item in objects if item["kind"] == "Pod"]
            return "".join(f"pod/{item['metadata']['name']}\n" for item in pods)
        raise AssertionError(f"no answer to {words}")

    def _selected(self, selector):
        """Return the objects with a label: `key=value`, or `key in (value, value)`."""
        key, *values = re.split(r"=| in \(|, ", selector.rstrip(")"))
        return [
            item
            for item in self.objects
            if (item["metadata"].get("labels") or {}).get(key) in values
        ]

    def _reviewed(self, item):
        asked = item["spec"]["resourceAttributes"]
        key = f"{asked['verb']} {asked['resource']}"
        return json.dumps({**item, "status": {"allowed": key not in self.refused}}, indent=2)

    @contextmanager
    def proxy(self, _paths):
        """Serve `logs`, as `kubectl proxy` does."""
        with (
            TemporaryDirectory() as folder,
            ThreadingUnixStreamServer(f"{folder}/api", Log) as server,
        ):
            server.cluster, server.daemon_threads = self, True
            Thread(target=server.serve_forever, args=(0.01,)).start()
            try:
                yield f"{folder}/api"
            finally:
                server.shutdown()

    @staticmethod
    def refusal(reason, message):
        """An item of `logs`: an error of the API server instead of a log."""
        return Refusal(reason, message)


class Refusal(NamedTuple):
    """See `Cluster.refusal`."""

    reason: str
    message: str


class Log(StreamRequestHandler):
    """Writes the lines of a log. None: the log goes on, but there are no more lines."""

    def handle(self):
        url = urlsplit(self.rfile.readline().decode().split()[1])
        pod, query = url.path.split("/")[-2], dict(parse_qsl(url.query))
        container = query.pop("container")
        cluster = self.server.cluster
        options = " ".join(f"{name}={value}" for name, value in sorted(query.items()))
        cluster.calls.append(f"log {pod} {container} {options}")
        missing = Refusal("NotFound", f'pods "{pod}" not found')
        head = b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n"
        for item in list(cluster.logs.get((pod, container), [missing])):
            found = item() if callable(item) else item
            if isinstance(found, Refusal):
                answer = json.dumps({"kind": "Status", **found._asdict()})
                self.wfile.write(f"HTTP/1.0 500 X\r\n\r\n{answer}".encode())
                return
            self.wfile.write(head)
            head = b""
            if item is None:
                self.rfile.read()  # until the reader closes the connection
            elif not callable(item):
                self.wfile.write(f"{item}\n".encode())


@pytest.fixture
def cluster(monkeypatch):
    fake = Cluster()
    monkeypatch.chdir(HERE / "jobs")
    monkeypatch.setattr(Kubectl, "outcome", fake.outcome)
    monkeypatch.setattr(Kubectl, "proxy", fake.proxy)
    for module in (delete, ranks, watch):
        monkeypatch.setattr(module, "sleep", fake.sleep)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: getattr(fake, "now", real()))
    return fake


@pytest.fixture
def run(cluster):  # noqa: ARG001 - no command reaches a real cluster
    """Run mlgen; return its exit status, stdout and stderr."""

    def run(*words, stdin=None):
        result = CliRunner().invoke(main, list(words), input=stdin, catch_exceptions=False)
        return result.exit_code, result.stdout, result.stderr

    return run
