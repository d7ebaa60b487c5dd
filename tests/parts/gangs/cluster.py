"""A cluster with a gang scheduler, and nodes with one GPU each. KWOK simulates nodes and pods."""

import json
from contextlib import contextmanager

import yaml
from parts.kueue.server import STAGES
from parts.plane import QUIET, node, plane, play
from parts.programs import ROOT, module, part
from parts.supervisor import Supervisor

import mlgen
from mlgen.kubernetes.versions import parse

HERE = ROOT / "tests/parts/gangs"
MODULE = "sigs.k8s.io/scheduler-plugins@v0.34.7"
ROOM = {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "1"}
NODES = 4

VERSIONS = {"kubernetes": "1.37", "coscheduling": "1.34"}
"""The Kubernetes version for each gang scheduler."""

AGAIN = "--pod-max-in-unschedulable-pods-duration=5s"
"""The time after which coscheduling retries a gang that did not fit, by default 5 minutes.
Freed resources do not trigger a retry (EventsToRegister in pkg/coscheduling/coscheduling.go)."""

KINDS = "jobs,statefulsets,services,configmaps,serviceaccounts,roles,rolebindings"
POD_GROUPS = {
    "kubernetes": "podgroups.scheduling.k8s.io",
    "coscheduling": "podgroups.scheduling.x-k8s.io",
}


@contextmanager
def cluster(gang):
    """Run a Cluster with one of the gang schedulers."""
    version = VERSIONS[gang]
    variables = native() if gang == "kubernetes" else {"MANAGER_ARGS": QUIET}
    with plane(version, **variables) as created:
        if gang == "coscheduling":
            start_coscheduling(created)
        play(created, NODES, ROOM, (*STAGES, HERE / "stages.yaml"))
        yield Cluster(created, gang)


def native(*more):
    """Return the variables of a control plane with Kubernetes' own gang scheduling.

    Args:
        more: more feature gates.
    """
    gates = f"--feature-gates={','.join(f'{gate}=true' for gate in ('GenericWorkload', *more))}"
    server = f"{gates} --runtime-config=scheduling.k8s.io/v1beta1=true"
    return {"APISERVER_ARGS": server, "MANAGER_ARGS": f"{gates} {QUIET}", "SCHEDULER_ARGS": gates}


def start_coscheduling(created):
    """Start scheduler-plugins as the second scheduler of a control plane."""
    scheduler = part("coscheduling-scheduler", "coscheduling")
    controller = part("coscheduling-controller", "coscheduling")
    created.define(str(module(MODULE) / "manifests/coscheduling/crd.yaml"))
    kubeconfig = created.environment["KUBECONFIG"]
    configuration = created.folder / "scheduler.yaml"
    text = (HERE / "scheduler.yaml").read_text()
    configuration.write_text(text.replace("KUBECONFIG", kubeconfig))
    flags = [f"--config={configuration}", "--secure-port=0", AGAIN]
    created.run("coscheduling", [scheduler, *flags])
    created.run("podgroups", [controller, "--metricsAddr=0", "--probeAddr=0"])


class Cluster:
    """Four nodes with a GPU each.

    Attributes:
        plane: their control plane.
        gang: the gang scheduler.
    """

    def __init__(self, created, gang):
        self.plane, self.gang = created, gang
        self.supervisors = []

    def submit(self, name, roles, *, lasts="", supervisor=False, **spec):
        """Apply a job whose replicas need a GPU each.

        Args:
            name: the name of the job.
            roles: as in a job file; the first is the role of the deciding Job.
            lasts: the time after which its pods succeed; "" if they run until they are deleted.
            supervisor: True to render and run a supervisor.
            spec: more fields of the job file.
        """
        annotations = {"metadata": {"annotations": {"test/lasts": lasts}}} if lasts else {}
        fields = {
            "framework": "generic",
            "image": "example/train:1",
            "command": ["train"],
            "options": {"addresses": False},
            "resources": {"nvidia.com/gpu": 1},
            "successPolicy": {"role": next(iter(roles))},
            "template": annotations,
            **spec,
            "roles": roles,
            "scheduling": {"gang": self.gang, **spec.get("scheduling", {})},
        }
        head = {"apiVersion": "mlgen.dev/v1alpha1", "kind": "TrainingJob"}
        file = {**head, "metadata": {"name": name}, "spec": fields}
        version = parse(VERSIONS[self.gang])
        objects = mlgen.render(file, mlgen.Options(version, supervisor=supervisor))
        self.apply(objects)
        if supervisor:
            self.supervisors.append(Supervisor(self.plane, name, yaml.safe_dump_all(objects)))
            self.supervisors[-1].start()

    def apply(self, objects):
        """Apply objects with `kubectl apply --server-side`."""
        items = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.plane.kubectl("apply", "--server-side", "-f", "-", stdin=items)

    def pods(self, name):
        """Return the pods of a job's replicas that are not being deleted."""
        selector = f"mlgen.dev/job={name},mlgen.dev/role!=supervisor"
        found = self.plane.get("pods", "-l", selector)["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def bound(self, name):
        """Return how many pods of a job have a node."""
        return sum("nodeName" in pod["spec"] for pod in self.pods(name))

    def phases(self, name):
        """Return the phases of a job's pods, sorted."""
        return sorted(pod["status"]["phase"] for pod in self.pods(name))

    def running(self, name):
        """Return the names of a job's running pods by their UIDs."""
        running = [pod for pod in self.pods(name) if pod["status"]["phase"] == "Running"]
        return {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in running}

    def until_running(self, name, count):
        """Wait until a number of pods of a job run."""
        self.plane.until(lambda: len(self.running(name)) == count, seconds=120)

    def until_complete(self, *names):
        """Wait until all pods of jobs have succeeded."""
        self.plane.until(lambda: all(self.is_complete(name) for name in names), seconds=120)

    def is_complete(self, name):
        phases = self.phases(name)
        return bool(phases) and set(phases) == {"Succeeded"}

    def until_refused(self, name):
        """Wait until the scheduler has tried to place a pod of a job, but no node fits."""

        def refused():
            conditions = (c for p in self.pods(name) for c in p["status"].get("conditions", ()))
            return any((c["type"], c["status"]) == ("PodScheduled", "False") for c in conditions)

        self.plane.until(refused, seconds=60)

    def add_node(self):
        """Add a fifth node."""
        self.plane.create("/api/v1/nodes", [node(NODES, ROOM)])

    def clean(self):
        """Delete all jobs, and the fifth node."""
        while self.supervisors:
            self.supervisors.pop().stop()
        kinds = f"{KINDS},{POD_GROUPS[self.gang]}"
        selector = "mlgen.dev/job"
        self.plane.kubectl("delete", kinds, "-l", selector, "--wait=false")
        self.plane.kubectl("delete", "node", f"node-{NODES}", "--ignore-not-found")
        self.plane.until(lambda: not self.plane.get("pods")["items"], seconds=120)
