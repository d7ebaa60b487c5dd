"""A job of 5,000 replicas on 1,000 nodes: mlgen's manifests against the training operator.

Both run one after the other on the same control plane, and KWOK simulates the nodes. The table
lists the cost until all pods run, and the cost of the death of one replica: mlgen's supervisor
restarts all replicas together (`restartScope: All`), and the operator replaces the dead one.

The supervisor is the rendered program with the permissions of its service account. There is no
kubelet, so it runs as a process next to the API server.
"""

import json
import re
import subprocess
import time
from collections import Counter
from typing import NamedTuple

from measure import MLGEN, arguments, number, ratio, script, table
from parts.plane import QUIET, memory, plane, play
from parts.supervisor import Supervisor, kill
from training_operator import start_training_operator

REPLICAS, NODES = 5000, 1000
IDLE = 150
"""Seconds without changes."""

SETTLE = 30
"""Seconds after which the last Events are written."""

JOB = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: ddp}
spec:
  framework: pytorch
  image: example/ddp:1
  command: [python3, train.py]
  restartPolicy: ExitCode
  roles: {master: {}, worker: {replicas: WORKERS}}
  runPolicy: {restartScope: All}
"""

PYTORCHJOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: ddp}
spec:
  pytorchReplicaSpecs:
    Master:
      restartPolicy: ExitCode
      template: &template
        spec:
          containers:
          - {name: pytorch, image: example/ddp:1, command: [python3, train.py]}
    Worker: {replicas: WORKERS, restartPolicy: ExitCode, template: *template}
"""

KINDS = ("pods", "services", "endpoints", "configmaps", "serviceaccounts", "events")
"""The counted kinds of the core group. All kinds of other groups are counted."""

PATHS = (
    *(f"/api/v1/namespaces/default/{kind}" for kind in KINDS),
    "/apis/batch/v1/namespaces/default/jobs",
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
)


class Moment(NamedTuple):
    """Counters of the control plane at one time."""

    requests: Counter
    objects: Counter
    cpu: Counter
    time: float


def moment(created):
    """Return the current Moment of a Plane."""
    objects = Counter({path.rpartition("/")[2]: created.count(path) for path in PATHS})
    return Moment(created.requests(), objects, created.cpu(), time.time())


class Phase(NamedTuple):
    """The difference between two Moments."""

    requests: int
    objects: int
    events: int
    seconds: float
    controllers: float
    """CPU seconds of controller manager, operator and supervisor."""
    server: float
    """CPU seconds of API server and etcd."""
    details: Counter
    """Requests by verb and resource."""


def phase(before, after, seconds):
    requests, objects = after.requests - before.requests, after.objects - before.objects
    cpu = after.cpu - before.cpu
    return Phase(
        requests.total(),
        objects.total() - objects["events"],
        objects["events"],
        seconds,
        cpu["manager"] + cpu["operator"] + cpu["supervisor"],
        cpu["apiserver"] + cpu["etcd"],
        requests,
    )


def measured(created, act, is_done):
    """Return the Phase from an action until a condition holds."""
    before, started = moment(created), time.monotonic()
    act()
    created.until(is_done)
    return phase(before, moment(created), time.monotonic() - started)


def first_pod(created, selector):
    """Return the name of a pod."""
    path = "/api/v1/namespaces/default/pods?limit=1&labelSelector="
    listed = json.loads(created.kubectl("get", "--raw", path + selector.replace("=", "%3D")))
    return listed["items"][0]["metadata"]["name"]


class Measured(Supervisor):
    """The supervisor of a job, with its requests and its cost."""

    def requests(self):
        """Return the times, methods and paths of its requests so far."""
        text = (self.created.folder / "log/supervisor.log").read_text()
        return [
            (float(at), method, path)
            for at, method, path in re.findall(r"^(\d+\.\d+) ([A-Z]+) (\S+)$", text, re.MULTILINE)
        ]

    COLUMNS = ("requests", "MB of pods", "CPU s", "seconds", "MB", "MB at most")

    def mark(self):
        """Return the time, the CPU seconds and the MB of listed pods so far."""
        cpu = self.created.cpu()["supervisor"]
        return time.time(), cpu, self.created.megabytes("pods", "LIST")

    def since(self, mark):
        """Return cells for COLUMNS."""
        seconds, cpu, answers = (b - a for a, b in zip(mark, self.mark(), strict=True))
        requests = sum(at >= mark[0] for at, _, _ in self.requests())
        rss, peak = memory(self.created.processes["supervisor"])
        return map(number, (requests, answers, cpu, seconds, rss, peak))

    def patches(self, since):
        """Return the times of its patches of the Job: first to suspend it, then to resume it."""
        requests = [each for each in self.requests() if each[0] > since]
        return [at for at, method, path in requests if method == "PATCH" and "/jobs/" in path]


def with_mlgen(created, replicas, idle):
    """Return two Phases of mlgen's job: its start, and the restart of all replicas.

    Prints the cost of its supervisor in each Phase.
    """
    document = JOB.replace("WORKERS", str(replicas - 1))
    done = subprocess.run(
        [*MLGEN, "render", "-"], input=document, stdout=subprocess.PIPE, check=True, text=True
    )
    supervisor, rows = Measured(created, "ddp", done.stdout), []

    def begin():
        created.kubectl("apply", "--server-side", "-f", "-", stdin=done.stdout)
        supervisor.start()

    def is_complete():
        return created.get("job", "ddp-rank")["status"].get("ready", 0) == replicas

    mark = supervisor.mark()
    start = measured(created, begin, is_complete)
    time.sleep(SETTLE)
    rows.append(["all pods start", *supervisor.since(mark), ""])
    mark = supervisor.mark()
    time.sleep(idle)
    rows.append(["nothing happens", *supervisor.since(mark), ""])
    mark = supervisor.mark()
    pod = first_pod(created, "mlgen.dev/job=ddp")
    killed = time.time()

    def is_restarted():
        return len(supervisor.patches(killed)) > 1 and is_complete()

    restart = measured(created, lambda: kill(created, pod), is_restarted)
    suspended, resumed, *_ = (at - killed for at in supervisor.patches(killed))
    reaction = f"suspends after {number(suspended)} s, resumes after {number(resumed)} s"
    rows.append(["a replica dies", *supervisor.since(mark), reaction])
    table(["supervisor", *supervisor.COLUMNS, "reaction"], *rows)
    return start, restart


def with_operator(created, replicas):
    """Return two Phases of the operator's job: its start, and the replacement of a replica."""
    document = PYTORCHJOB.replace("WORKERS", str(replicas - 1))
    start_training_operator(created)

    def is_complete():
        status = created.get("pytorchjob", "ddp").get("status", {}).get("replicaStatuses", {})
        return sum(each.get("active", 0) for each in status.values()) == replicas

    def begin():
        created.kubectl("apply", "--server-side", "-f", "-", stdin=document)

    start = measured(created, begin, is_complete)
    time.sleep(SETTLE)
    get = ("get", "pod", "ddp-worker-0", "--ignore-not-found", "-o", "jsonpath={.metadata.uid}")
    uid = created.kubectl(*get)

    def is_replaced():
        return created.kubectl(*get) not in ("", uid) and is_complete()

    return start, measured(created, lambda: kill(created, "ddp-worker-0"), is_replaced)


MEASURES = {
    "requests": "requests to the API server",
    "objects": "objects",
    "events": "Events",
    "seconds": "seconds until all pods run",
    "controllers": "CPU s of the controllers",
    "server": "CPU s of API server and etcd",
}


def compare(title, ours, theirs):
    """Print the measures of two Phases, and the requests that make the difference."""
    rows = []
    for key, name in MEASURES.items():
        own, other = getattr(ours, key), getattr(theirs, key)
        rows.append([name, ratio(own, other) if other else "", number(own), number(other)])
    table([title, "ratio", "mlgen", "operator"], *rows)
    names = {name for each in (ours, theirs) for name, n in each.details.items() if n >= 20}
    rows = [[f"{v} {k}", ours.details[v, k], theirs.details[v, k]] for v, k in sorted(names)]
    table(["requests", "mlgen", "operator"], *rows)


def main(argv):
    small = arguments(__doc__, argv).small
    replicas, nodes, idle = (50, 20, 10) if small else (REPLICAS, NODES, IDLE)
    with plane(MANAGER_ARGS=QUIET) as created:
        play(created, nodes)
        start, restart = with_mlgen(created, replicas, idle)
    with plane(MANAGER_ARGS=QUIET) as created:
        play(created, nodes)
        start_of_operator, replaced = with_operator(created, replicas)
    compare(f"{replicas:,} replicas", start, start_of_operator)
    compare("a replica dies", restart, replaced)


if __name__ == "__main__":
    script(main)
