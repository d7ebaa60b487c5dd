"""The faults: each one can strike and heal."""

import base64
import json
import os
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

from cluster import command, environment

PROGRAM = "mlgen.runtime.supervise"


class Fault:
    """A fault. `name` is its name in the table of docs/how/supervisor.md."""

    name = "none"
    seconds = (0.0, 0.0)
    """Its shortest and longest duration, in seconds."""
    delay = 0
    """The most seconds by which it delays the end of a job, in addition to its own duration."""

    disruptions = 0
    """The most uncounted restarts of the gang that it may cause."""

    def __init__(self, cluster, namespace, job):
        self.cluster, self.namespace, self.job = cluster, namespace, job

    def prepare(self):
        """Prepare the fault before the job starts."""

    def strike(self):
        """Cause the fault; return a description."""

    def heal(self):
        """End the fault."""

    def end(self):
        """Clean up after the job has ended."""


class Killed(Fault):
    """A process of the cluster is killed, and later started again."""

    seconds = (1.0, 12.0)
    delay = 30

    def strike(self):
        self.cluster.kill(self.name)
        return f"killed {self.name}"

    def heal(self):
        self.cluster.start(self.name)


class Kubelet(Killed):
    name = "kubelet"


class ControllerManager(Killed):
    name = "kube-controller-manager"


class Scheduler(Killed):
    name = "kube-scheduler"


class Containerd(Killed):
    name = "containerd"


class ApiServer(Killed):
    name = "kube-apiserver"
    delay = 60


class Etcd(Killed):
    name = "etcd"
    delay = 60


class Supervisor(Fault):
    """The supervisor is killed, and the Job controller starts another."""

    name = "supervisor"
    delay = 30

    def strike(self):
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline:
            if process := supervisor(self.cluster, self.namespace, self.job):
                os.kill(process, signal.SIGKILL)
                return "killed the supervisor"
            time.sleep(0.2)
        return "the supervisor does not run"


class FullEtcd(Fault):
    """Etcd has raised the alarm that its database has reached its quota: it refuses to write."""

    name = "etcd, full"
    seconds = (3.0, 12.0)
    delay = 60
    alarm = "NOSPACE"

    def strike(self):
        self.call("maintenance/alarm", action="ACTIVATE", alarm=self.alarm)
        return "etcd is full"

    def heal(self):
        """Follow https://etcd.io/docs/v3.4/op-guide/maintenance/#space-quota."""
        revision = self.call("kv/range", key=base64.b64encode(b"/").decode())["header"]["revision"]
        self.call("kv/compaction", revision=revision)
        self.call("maintenance/defragment")
        self.call("maintenance/alarm", action="DEACTIVATE", alarm=self.alarm)

    def call(self, path, **values):
        """Return the answer of etcd's gateway, which speaks JSON."""
        address = self.cluster.option("etcd", "--advertise-client-urls")
        request = urllib.request.Request(f"{address}/v3/{path}", json.dumps(values).encode())
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)


class ExpiredToken(Fault):
    """The kubelet has not renewed the supervisor's token in time."""

    name = "token, expired"
    seconds = (5.0, 15.0)
    delay = 60
    file = None

    def strike(self):
        selector = f"job-name={self.job}-supervisor"
        pods = self.cluster.json("-n", self.namespace, "get", "pods", "-l", selector)
        uids = [pod["metadata"]["uid"] for pod in pods["items"]]
        folder = Path(self.cluster.option("kubelet", "--root-dir"))
        for uid in uids:
            for file in folder.glob(f"pods/{uid}/volumes/*projected/kube-api-access-*/token"):
                self.file, self.token = file.resolve(), file.read_text()
                self.expired = self.signed(self.token)
                self.file.write_text(self.expired)
                return "the token has expired"
        return "the supervisor has no token"

    def heal(self):
        """Renew the token as the kubelet does, unless the kubelet has renewed it."""
        if self.file and self.file.exists() and self.file.read_text() == self.expired:
            self.file.write_text(self.token)

    def signed(self, token):
        """Return a token that has expired, signed by the cluster."""
        header, claims, _ = token.split(".")
        values = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        values |= {"exp": int(time.time()) - 3600, "iat": int(time.time()) - 7200}
        text = f"{header}.{encoded(json.dumps(values).encode())}"
        key = self.cluster.option("kube-apiserver", "--service-account-signing-key-file")
        sign = ["openssl", "dgst", "-sha256", "-sign", key]
        done = subprocess.run(sign, input=text.encode(), capture_output=True, check=True)
        return f"{text}.{encoded(done.stdout)}"


def encoded(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def supervisor(cluster, namespace, job):
    """Return the process id of a job's supervisor on this machine; 0 if there is none."""
    found = cluster.json("-n", namespace, "get", "job", f"{job}-supervisor")
    uid = found.get("metadata", {}).get("uid")
    for folder in Path("/proc").glob("[0-9]*"):
        process = int(folder.name)
        if PROGRAM in command(process) and environment(process).get("MLGEN_RUN") == uid:
            return process
    return 0


def memory(process):
    """Return the peak memory of a process in MB; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    peaks = [line.split()[1] for line in lines if line.startswith("VmHWM")]
    return int(peaks[0]) // 1024 if peaks else 0


FAULTS = (
    Supervisor,
    Kubelet,
    ControllerManager,
    Scheduler,
    Containerd,
    ApiServer,
    Etcd,
    FullEtcd,
    ExpiredToken,
)
