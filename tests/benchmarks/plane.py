"""A real control plane whose nodes and pods KWOK plays, and what it costs.

Needs ../shared/parts (etcd, API server, controller manager, scheduler; no kubelet), `kwok` on the
PATH, and `go` for the module that KWOK's stages are read from.
"""

import http.client
import json
import os
import re
import ssl
import subprocess
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

from measure import ROOT, MissingError, tool

CONTROL_PLANE = ROOT.parent / "shared/parts/control-plane"
KWOK = "sigs.k8s.io/kwok@v0.8.0"
STAGES = ("node/fast/node-initialize", "pod/fast/pod-ready", "pod/fast/pod-delete")
"""What KWOK does to nodes and pods: pods of Jobs run until they are deleted."""

ROOM = {"cpu": "32", "memory": "256Gi", "pods": "110"}
BACKGROUND = ("leases", "nodes", "csinodes")
"""Resources of the nodes' heartbeats, which are there without a job."""

QUIET = "--node-monitor-grace-period=30m"
"""Nodes are alive without a heartbeat."""

TRIES = 10
BUSY = "timeout|stream error|refused|Unable to connect"
TICKS = os.sysconf("SC_CLK_TCK")


class Plane:
    """The API server at a kubeconfig, and the processes of a control plane by name."""

    def __init__(self, kubeconfig):
        self.folder = Path(kubeconfig).parent
        self.environment = os.environ | {"KUBECONFIG": kubeconfig}
        self.processes = {}
        self._started = []
        for file in (self.folder / "run").glob("*.pid"):
            self.processes[file.stem] = int(file.read_text())

    @property
    def address(self):
        """Host and port of the API server."""
        return re.search('https://([^"]+)', (self.folder / "kubeconfig").read_text())[1].split(":")

    def kubectl(self, *words, stdin=None):
        """Run kubectl, which must succeed, and return its stdout; a busy API server is retried."""
        options = {"input": stdin, "capture_output": True, "text": True, "env": self.environment}
        for _ in range(TRIES):
            done = subprocess.run(["kubectl", *words], check=False, **options)
            if not done.returncode:
                return done.stdout
            if not re.search(BUSY, done.stderr):
                break
            time.sleep(1)
        raise RuntimeError(f"kubectl {' '.join(words)}: {done.stderr[-2000:]}")

    def create(self, path, objects):
        """Create objects of one kind; kubectl takes minutes for a thousand."""
        config = (self.folder / "kubeconfig").read_text()
        context = ssl.create_default_context(cafile=self.folder / "pki/ca.crt")
        connection = http.client.HTTPSConnection(":".join(self.address), context=context)
        headers = {"Content-Type": "application/json"}
        headers["Authorization"] = f"Bearer {re.search('token: ([^}]+)', config)[1]}"
        for each in objects:
            connection.request("POST", path, json.dumps(each), headers)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != http.client.CREATED:
                raise RuntimeError(f"POST {path}: {text.decode()}")

    def get(self, *words):
        """Return an object, or a list of them."""
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def count(self, path):
        """Return how many objects there are of the resource at a path of the API."""
        listed = json.loads(self.kubectl("get", "--raw", f"{path}?limit=1"))
        return len(listed["items"]) + listed["metadata"].get("remainingItemCount", 0)

    def until(self, condition, seconds=1800):
        """Poll twice a second until a condition holds; return the seconds that it took."""
        started = time.monotonic()
        while not condition():
            if time.monotonic() > started + seconds:
                raise RuntimeError(f"not within {seconds} s; see {self.folder}/log")
            time.sleep(0.5)
        return time.monotonic() - started

    def run(self, name, command, **options):
        """Start a program beside the control plane; it is killed with it."""
        log = (self.folder / "log" / f"{name}.log").open("wb")
        options.setdefault("env", self.environment)
        process = subprocess.Popen(command, stdout=log, stderr=log, **options)
        self.processes[name] = process.pid
        self._started.append(process)

    def stop(self):
        """Kill the programs that `run` has started."""
        for process in self._started:
            process.kill()
            process.wait()

    def requests(self):
        """Return the requests to the API server so far by verb and resource, heartbeats excluded.

        https://kubernetes.io/docs/reference/instrumentation/metrics/
        """
        found = Counter()
        for labels, value in self._metric("apiserver_request_total"):
            if labels["resource"] and labels["resource"] not in BACKGROUND:
                name = "/".join(filter(None, (labels["resource"], labels["subresource"])))
                found[labels["verb"], name] += int(value)
        return found

    def megabytes(self, resource, verb):
        """Return how many MB of answers about a resource the API server has sent so far."""
        metrics = self._metric("apiserver_response_sizes_sum")
        own = [
            v for labels, v in metrics if (labels["resource"], labels["verb"]) == (resource, verb)
        ]
        return sum(own) / 1e6

    def _metric(self, name):
        for line in self.kubectl("get", "--raw", "/metrics").splitlines():
            if line.startswith(f"{name}{{"):
                labels, _, value = line.rpartition(" ")
                yield dict(re.findall(r'(\w+)="([^"]*)"', labels)), float(value)

    def cpu(self):
        """Return the CPU seconds of each process so far."""
        return Counter({name: cpu_seconds(pid) for name, pid in self.processes.items()})


def cpu_seconds(pid):
    """Return the CPU seconds of a process so far: fields 14 and 15 of proc(5)'s stat."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory(pid):
    """Return the resident set of a process in MB, now and at its peak."""
    text = Path(f"/proc/{pid}/status").read_text()
    return tuple(int(re.search(rf"{key}:\s+(\d+)", text)[1]) / 1024 for key in ("VmRSS", "VmHWM"))


def module(name):
    """Return the folder of a Go module."""
    command = [tool("go", "install Go"), "mod", "download", "-json", name]
    try:
        done = subprocess.run(command, check=True, capture_output=True, cwd="/")
    except subprocess.CalledProcessError as error:
        raise MissingError(f"{name} cannot be had: {error.stderr[-200:]}") from error
    return Path(json.loads(done.stdout)["Dir"])


@contextmanager
def plane(nodes, manager=QUIET):
    """Run a control plane with so many nodes; `manager` are flags of its controller manager."""
    if not CONTROL_PLANE.exists():
        raise MissingError("there is no ../shared/parts/control-plane")
    kwok = tool("kwok", f"go install {KWOK.replace('@', '/cmd/kwok@')}")
    stages = "---\n".join(
        (module(KWOK) / f"kustomize/stage/{name}.yaml").read_text() for name in STAGES
    )
    variables = os.environ | {"MLGEN_PLANE": "benchmark", "PORT": "26643", "MANAGER_ARGS": manager}
    command = ["nice", CONTROL_PLANE]
    done = subprocess.run(
        [*command, "up"], check=True, capture_output=True, text=True, env=variables
    )
    created = Plane(done.stdout.strip().partition("=")[2])
    try:
        (created.folder / "stages.yaml").write_text(stages)
        flags = ["--kubeconfig", created.environment["KUBECONFIG"], "--config", "stages.yaml"]
        flags += ["--manage-nodes-with-annotation-selector", "kwok.x-k8s.io/node=fake"]
        flags += ["--node-lease-duration-seconds", "0"]
        created.run("kwok", ["nice", kwok, *flags], cwd=created.folder)
        created.create("/api/v1/nodes", map(_node, range(nodes)))
        ready = 'jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}'
        created.until(lambda: created.kubectl("get", "nodes", "-o", ready).count("True") == nodes)
        yield created
    finally:
        created.stop()
        subprocess.run([*command, "down", "--wipe"], check=True, env=variables)


def _node(index):
    metadata = {"name": f"node-{index}", "annotations": {"kwok.x-k8s.io/node": "fake"}}
    return {"metadata": metadata, "status": {"allocatable": ROOM, "capacity": ROOM}}


TRAINING_OPERATOR = "github.com/kubeflow/training-operator@v1.8.1"
CERTIFICATES = Path("/tmp/k8s-webhook-server/serving-certs")  # fixed by the operator
WEBHOOK = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: validator.training-operator.kubeflow.org}
webhooks: []
"""


def start_training_operator(plane, *flags):
    """Run Kubeflow's training operator as a process, with its CRDs and without its webhooks."""
    program = f"go install {TRAINING_OPERATOR.replace('@', '/cmd/training-operator.v1@')}"
    program = tool("training-operator.v1", program)
    crds = module(TRAINING_OPERATOR) / "manifests/base/crds"
    plane.kubectl("apply", "--server-side", "-k", str(crds))
    secret = ("training-operator-webhook-cert", "-n", "kubeflow")
    plane.kubectl("create", "namespace", "kubeflow")
    plane.kubectl("create", "secret", "generic", *secret)
    plane.kubectl("apply", "-f", "-", stdin=WEBHOOK)
    addresses = ("--metrics-bind-address", "127.0.0.1:0", "--health-probe-bind-address")
    command = [program, *addresses, "127.0.0.1:0", "--webhook-server-port", "26644", *flags]
    plane.run("operator", ["nice", *command])
    # A kubelet would mount the Secret that the operator fills.
    plane.until(lambda: "data" in plane.get("secret", *secret))
    CERTIFICATES.mkdir(parents=True, exist_ok=True)
    for name in plane.get("secret", *secret)["data"]:
        template = f"{{{{index .data {json.dumps(name)} | base64decode}}}}"
        text = plane.kubectl("get", "secret", *secret, "-o", f"go-template={template}")
        (CERTIFICATES / name).write_text(text)
