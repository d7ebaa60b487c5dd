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
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from click.testing import CliRunner

from mlgen.cli import main
from mlgen.live import delete, listing, ranks, watch
from mlgen.live.job import OWNED
from mlgen.live.kubectl import Kubectl, Outcome

HERE = Path(__file__).parent


def recording(name):
    return json.loads((HERE / f"recorded/{name}.json").read_text())


def printed(objects):
    """kubectl's output for objects with `-o json`."""
    return json.dumps({"kind": "List", "items": objects})


LIST = re.compile(r"/apis?(?:/\w+)?/v1(?:/namespaces/([\w-]+))?/(\w+)\?labelSelector=(.+)")
"""The path of a list: a namespace or None, a resource, and a label selector."""


def matches(labels, selector):
    """Whether labels match a selector of these forms: a, !a, a=b, a!=b, a in (b, c)."""
    for word in re.split(r",(?![^(]*\))", selector):
        name, operator, value = re.fullmatch(r"(!?[^!= ]+)(!?=| in )?(.*)", word).groups()
        if operator is None and (name.lstrip("!") in labels) == name.startswith("!"):
            return False
        found = labels.get(name) in value.strip("()").split(", ")
        if operator and found == operator.startswith("!"):
            return False
    return True


def _is_of(item, kinds):
    """Return whether an object is of one of some kinds, as kubectl writes them."""
    return any(
        kind.partition(".")[0].rstrip("s") == item["kind"].lower().rstrip("s")
        for kind in kinds.split(",")
    )


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
        self.interrupted = None
        """The number of objects that are applied until Ctrl-C."""
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

    def _text(self, words, stdin):  # noqa: C901, PLR0911 - one line for each command
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
        if words[0] == "api-resources":
            return "\n".join(OWNED)
        if words[:2] == ("auth", "whoami"):
            return "ada@example.com"
        if words[0] == "wait":
            return ""
        if words[:3] == ("get", "-f", "-"):
            asked = {(i["kind"], i["metadata"]["name"]) for i in json.loads(stdin)["items"]}
            objects = [i for i in self.objects if (i["kind"], i["metadata"]["name"]) in asked]
            return printed(objects)
        if words[1] == "--raw":
            return self._listed(words[2])
        if words[1] in ("view", "events"):
            return printed(self.events) if words[1] == "events" else "vision"
        if "--ignore-not-found" in words:
            names = {f"{item['kind'].lower()}/{item['metadata']['name']}" for item in self.objects}
            return "\n".join(word for word in words if word in names)
        if "-l" in words:
            objects = self._selected(words[words.index("-l") + 1])
            if words[-1] != "name":
                return printed([item for item in objects if _is_of(item, words[1])])
            pods = [item for item in objects if item["kind"] == "Pod"]
            return "".join(f"pod/{item['metadata']['name']}\n" for item in pods)
        raise AssertionError(f"no answer to {words}")

    def _selected(self, selector):
        """Return the objects that match a selector: `a=b`, `a in (b, c)`, `!a`, or several."""
        return [e for e in self.objects if matches(e["metadata"].get("labels") or {}, selector)]

    def _listed(self, path):
        """Return a list as the API server does: its items have no kind."""
        space, resource, selector = LIST.fullmatch(unquote(path)).groups()
        found = [
            {name: value for name, value in item.items() if name not in ("apiVersion", "kind")}
            for item in self.objects
            if f"{item['kind'].lower()}s" == resource
            and space in (None, item["metadata"]["namespace"])
            and matches(item["metadata"].get("labels") or {}, selector)
        ]
        return json.dumps({"kind": "AnyList", "metadata": {}, "items": found})

    def _reviewed(self, item):
        asked = item["spec"]["resourceAttributes"]
        key = f"{asked['verb']} {asked['resource']}"
        return json.dumps({**item, "status": {"allowed": key not in self.refused}}, indent=2)

    def lines(self, *words, namespace=None, stdin=""):
        self.calls.append(" ".join(words))
        self.requests.append((" ".join(words), namespace, stdin or None))
        return self._applied(json.loads(stdin)["items"], "--dry-run=server" in words)

    def _applied(self, items, dry_run):
        for item in items:
            if self.interrupted is not None and not self.interrupted:
                raise KeyboardInterrupt
            self.interrupted = self.interrupted and self.interrupted - 1
            name, metadata = item["metadata"]["name"], item["metadata"]
            own = {"uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
            if not dry_run:
                key = item["kind"], name
                others = [e for e in self.objects if (e["kind"], e["metadata"]["name"]) != key]
                self.objects = [*others, {**item, "metadata": {**metadata, **own}}]
            yield f"{item['kind'].lower()}/{name} serverside-applied"

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
    monkeypatch.setattr(Kubectl, "lines", fake.lines)
    monkeypatch.setattr(Kubectl, "proxy", fake.proxy)
    for module in (delete, listing, ranks, watch):
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
