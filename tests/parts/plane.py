"""A real control plane of any version, and its cost. KWOK simulates nodes and pods.

Needs ../shared/parts (etcd, API server, controller manager, scheduler; no kubelet), and for nodes
`kwok`, and `go` for the module with KWOK's stages.
"""

import http.client
import json
import os
import re
import socket
import ssl
import subprocess
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from fcntl import LOCK_EX, flock
from pathlib import Path

from parts.programs import (
    CLUSTER,
    CONTROL_PLANE,
    HOME,
    MissingError,
    kubernetes,
    module,
    part,
)

KWOK = "sigs.k8s.io/kwok@v0.8.0"
STAGES = ("node/fast/node-initialize", "pod/fast/pod-ready", "pod/fast/pod-delete")
"""KWOK's stages of nodes and pods. Pods of Jobs run until they are deleted."""

ROOM = {"cpu": "32", "memory": "256Gi", "pods": "110"}
BACKGROUND = ("leases", "nodes", "csinodes")
"""Resources of the nodes' heartbeats, which exist without a job."""

QUIET = "--node-monitor-grace-period=30m"
"""Nodes are alive without a heartbeat."""

TRIES = 10
BUSY = "timeout|stream error|refused|Unable to connect"
TICKS = os.sysconf("SC_CLK_TCK")


class Plane:
    """The API server at a kubeconfig, and the processes of a control plane by name."""

    def __init__(self, kubeconfig):
        self.folder = Path(kubeconfig).parent
        path = f"{CLUSTER / 'bin'}{os.pathsep}{os.environ['PATH']}"
        self.environment = os.environ | {"KUBECONFIG": kubeconfig, "PATH": path}
        self.processes = {}
        self._started = []
        for file in (self.folder / "run").glob("*.pid"):
            self.processes[file.stem] = int(file.read_text())

    @property
    def address(self):
        """Host and port of the API server."""
        return re.search('https://([^"]+)', (self.folder / "kubeconfig").read_text())[1].split(":")

    def kubectl(self, *words, stdin=None):
        """Run kubectl, which must succeed; return its stdout. Retries if the API server is busy."""
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
        """Create objects of one kind. kubectl would take minutes for a thousand."""
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

    def define(self, file):
        """Create the CustomResourceDefinitions in a file, and wait until they are served."""
        self.kubectl("apply", "--server-side", "-f", file)

        def established():
            found = self.get("-f", file)
            return all(
                any(c["type"] == "Established" for c in item["status"].get("conditions") or ())
                for item in found.get("items", [found])
            )

        self.until(established, seconds=60)

    def count(self, path):
        """Return the number of objects of the resource at an API path."""
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
        """Start a program that is killed with the control plane, and return its process."""
        log = (self.folder / "log" / f"{name}.log").open("wb")
        options.setdefault("env", self.environment)
        process = subprocess.Popen(command, stdout=log, stderr=log, **options)
        self.processes[name] = process.pid
        self._started.append(process)
        return process

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
        """Return the MB of responses about a resource that the API server has sent so far."""
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


@contextmanager
def plane(version="1.34", **variables):
    """Run a control plane on its own ports; stop it and delete its files at the end.

    Args:
        version: the version of Kubernetes, one of `programs.KUBERNETES`.
        variables: variables of ../shared/parts/control-plane:  `MANAGER_ARGS` and `SCHEDULER`.
    """
    if not CONTROL_PLANE.exists():
        raise MissingError("there is no ../shared/parts/control-plane")
    HOME.mkdir(parents=True, exist_ok=True)
    lock = (HOME / "ports").open("w")
    flock(lock, LOCK_EX)  # until they are in use, so that parallel starts get other ports
    port = free_ports()
    # A process that ends deletes its folder only after its ports are free, so each has its own.
    name = f"plane-{port}-{os.getpid()}"
    variables = {
        **os.environ,
        "PROGRAMS": str(kubernetes(version)),
        "MLGEN_PLANE": name,
        "PORT": str(port),
        **variables,
    }
    command = ["nice", CONTROL_PLANE]
    try:
        with lock:
            done = subprocess.run(
                [*command, "up"], check=False, capture_output=True, text=True, env=variables
            )
            if done.returncode:
                raise RuntimeError(f"control-plane: {done.stderr}{_log_ends(name)}")
        created = Plane(done.stdout.strip().partition("=")[2])
        try:
            created.until(lambda: created.get("serviceaccount")["items"], seconds=60)
            yield created
        finally:
            created.stop()
    finally:
        subprocess.run([*command, "down", "--wipe"], check=True, env=variables)


def _log_ends(name):
    """Return the end of each log of a control plane."""
    logs = sorted((HOME / name / "log").glob("*.log"))
    return "".join(f"\n== {log.name}\n{log.read_text()[-2000:]}" for log in logs)


def free_ports():
    """Return a free port. The two ports below it, for etcd, are also free."""
    for port in range(26643, 29000, 3):
        with ExitStack() as sockets:
            try:
                for number in (port - 2, port - 1, port):
                    sockets.enter_context(socket.create_server(("127.0.0.1", number)))
            except OSError:
                continue
            return port
    raise MissingError("there are no free ports")


def play(created, nodes, room=ROOM, stages=STAGES):
    """Let KWOK simulate the nodes `node-0` and so on, and their pods; wait for the nodes.

    Args:
        created: a Plane.
        nodes: the number of nodes.
        room: the allocatable resources of each.
        stages: files with the stages of nodes and pods; KWOK's own files by name.
    """
    kwok = part("kwok")
    files = [
        stage if isinstance(stage, Path) else module(KWOK) / f"kustomize/stage/{stage}.yaml"
        for stage in stages
    ]
    texts = [file.read_text() for file in files]
    (created.folder / "stages.yaml").write_text("---\n".join(texts))
    flags = ["--kubeconfig", created.environment["KUBECONFIG"], "--config", "stages.yaml"]
    flags += ["--manage-nodes-with-annotation-selector", "kwok.x-k8s.io/node=fake"]
    flags += ["--node-lease-duration-seconds", "0"]
    created.run("kwok", ["nice", kwok, *flags], cwd=created.folder)
    created.create("/api/v1/nodes", (node(index, room) for index in range(nodes)))
    ready = 'jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}'
    created.until(lambda: created.kubectl("get", "nodes", "-o", ready).count("True") >= nodes)


def node(index, room=ROOM):
    """Return a Node for KWOK. Pods are spread by its host name label."""
    name = f"node-{index}"
    labels = {"kubernetes.io/hostname": name}
    metadata = {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}}
    return {"metadata": metadata, "status": {"allocatable": room, "capacity": room}}
