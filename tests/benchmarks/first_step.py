"""Time to train: seconds from `kubectl apply` to the end of tiny jobs, and the waits of each pod.

Usage: `python tests/benchmarks/first_step.py [--runs N] [--operators] [JOB...]`, in the cluster of
KUBECONFIG with the images of tests/cluster.

Each job is a custom resource of an operator, which `mlgen render` turns into manifests before the
clock starts. The timeline of its pods is read from a watch, so it shows when clients of the API
server see each change. The job has ended when its deciding Job is complete.

The operators' seconds were measured on an idle machine of two cores, under the training operator
(1.8.1, the last with MXJob) and the MPI operator. With `--operators`, they are measured again: the
operators in the cluster and mlgen run the same resources in turns.
"""

import argparse
import json
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from measure import MLGEN, ratio, script, table

RESOURCES = Path(__file__).parent.parent / "cluster" / "resources"
IMAGES = {"pythonImage": "mlgen.test/python:3", "kubectlImage": "mlgen.test/kubectl:1.34"}
PASSWD = "root:x:0:0::/root:/bin/sh\nmpiuser:x:1000:1000::/home/mpiuser:/bin/sh\n"
PATIENCE = 300
"""Time limit of a job, in seconds."""


class Job(NamedTuple):
    """A custom resource, and the seconds from its creation to its end under its operator."""

    file: str
    operator: float


JOBS = {
    "tensorflow all-reduce": Job("tfjob", 6.4),
    "tensorflow ps": Job("tfjob-ps", 10.0),
    "xgboost": Job("xgboostjob", 9.4),
    "mxnet": Job("mxjob", 6.2),
    "pytorch elastic": Job("pytorchjob-elastic", 12.0),
    "mpi v1": Job("mpijob-v1", 4.7),
    "mpi v2beta1": Job("mpijob-v2beta1", 5.8),
}

COLUMNS = ("scheduled", "init started", "init ended", "started", "ready", "ended")
"""The moments of a pod. Its init containers run one after the other."""


def kubectl(*words, stdin=None):
    """Run kubectl and return its stdout; it must succeed."""
    done = subprocess.run(["kubectl", *words], input=stdin, check=True, capture_output=True)
    return done.stdout


@contextmanager
def namespace():
    """Namespace with the objects that jobs over ssh need."""
    name = f"first-step-{secrets.token_hex(3)}"
    kubectl("create", "namespace", name)
    try:
        passwd = f"--from-literal=passwd={PASSWD}"
        kubectl("-n", name, "create", "configmap", "passwd", passwd)
        keys = subprocess.run([*MLGEN, "ssh-secret", "pi-ssh"], check=True, capture_output=True)
        kubectl("-n", name, "apply", "-f", "-", stdin=keys.stdout)
        while b"default" not in kubectl("-n", name, "get", "serviceaccounts", "-o", "name"):
            time.sleep(0.1)
        yield name
    finally:
        # A failed pod of a Job with backoffLimitPerIndex stays until its Job is gone.
        kubectl("-n", name, "delete", "jobs", "--all", "--wait=false")
        kubectl("delete", "namespace", name, "--wait=false")


class Watch:
    """The objects of a kind in a namespace, each with the moment at which each version was seen."""

    def __init__(self, space, kind):
        command = ["kubectl", "-n", space, "get", kind, "--watch", "--output", "json"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.versions = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        decoder, text = json.JSONDecoder(), ""
        for line in self._process.stdout:
            text += line
            if line == "}\n":
                item, _ = decoder.raw_decode(text)
                self.versions.append((time.monotonic(), item))
                text = ""

    def close(self):
        self._process.terminate()
        self._process.wait()
        self._thread.join()
        self._process.stdout.close()


def moments(pod):
    """Return the names of the moments that a pod has reached, according to its status."""
    status = pod["status"]
    true = {item["type"] for item in status.get("conditions", ()) if item["status"] == "True"}
    if "PodScheduled" in true:
        yield "scheduled"
    for number, container in enumerate(status.get("initContainerStatuses", ())):
        if "waiting" not in container["state"]:
            yield f"init started {number}"
        if "terminated" in container["state"]:
            yield f"init ended {number}"
    if any("waiting" not in item["state"] for item in status.get("containerStatuses", ())):
        yield "started"
    if "Ready" in true:
        yield "ready"
    if status.get("phase") in ("Succeeded", "Failed"):
        yield "ended"


def timelines(versions, start):
    """Map each pod to the seconds from the start at which each moment was first seen."""
    found = {}
    for at, pod in versions:
        seen = found.setdefault(pod["metadata"]["name"], {})
        for moment in moments(pod):
            seen.setdefault(moment, at - start)
    return found


def shown(seen, column):
    """Return a cell of a timeline: the seconds of a moment, or of each init container."""
    times = [at for moment, at in seen.items() if moment == column or moment[:-2] == column]
    return " ".join(f"{at:.1f}" for at in times)


def has_ended(item):
    """Return True if a Job is complete or a custom resource has succeeded; it must not fail."""
    conditions = item.get("status", {}).get("conditions", ())
    true = {condition["type"] for condition in conditions if condition["status"] == "True"}
    if "Failed" in true:
        sys.exit(f"{item['metadata']['name']} has failed")
    return bool(true & {"Complete", "Succeeded"})


def decides(item):
    return item["kind"] != "Job" or "mlgen.dev/decides" in item["metadata"].get("labels", {})


def run(manifests, kind):
    """Apply a job's objects; return the seconds until it ended, and the timelines of its pods."""
    with namespace() as space, tempfile.NamedTemporaryFile() as file:
        file.write(manifests)
        file.flush()
        pods, jobs = Watch(space, "pods"), Watch(space, kind)
        time.sleep(1)  # until kubectl watches
        try:
            start = time.monotonic()
            kubectl("-n", space, "apply", "-f", file.name)
            while not (ends := [at for at, i in jobs.versions if decides(i) and has_ended(i)]):
                if time.monotonic() - start > PATIENCE:
                    sys.exit(kubectl("-n", space, "get", "pods,jobs").decode())
                time.sleep(0.1)
            return min(ends) - start, timelines(pods.versions, start)
        finally:
            pods.close()
            jobs.close()


def rendered(file):
    """Return the manifests of a custom resource, with helper images that the cluster has."""
    images = [word for name in IMAGES for word in ("--set", f"spec.helpers.{name}={IMAGES[name]}")]
    command = [*MLGEN, "render", str(file), *images]
    return subprocess.run(command, check=True, capture_output=True).stdout


def timed(title, manifests, kind):
    """Run a job's objects, print the timelines of its pods, and return the seconds."""
    seconds, pods = run(manifests, kind)
    print(f"{title}: {seconds:.1f} s", end="\n\n")
    rows = [[pod, *(shown(seen, column) for column in COLUMNS)] for pod, seen in pods.items()]
    table(["pod", *COLUMNS], *rows)
    return seconds


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("jobs", nargs="*", choices=[[], *JOBS], metavar="JOB")
    parser.add_argument("--runs", type=int, default=3, help="runs of each job; the median counts")
    parser.add_argument(
        "--operators", action="store_true", help="run the jobs under the cluster's operators, too"
    )
    options = parser.parse_args(argv)
    rows = []
    for name in options.jobs or JOBS:
        file, own, operator = RESOURCES / f"{JOBS[name].file}.yaml", [], []
        resource, kind = file.read_bytes(), file.stem.partition("-")[0]
        manifests = rendered(file)
        for _ in range(options.runs):
            own.append(timed(name, manifests, "jobs"))
            if options.operators:
                operator.append(timed(f"{name}, operator", resource, f"{kind}s.kubeflow.org"))
        seconds, base = median(own), median(operator or [JOBS[name].operator])
        rows.append([name, ratio(seconds, base), f"{seconds:.1f}", f"{base:.1f}"])
    table(["job", "ratio", "seconds", "operator's seconds"], *rows)


if __name__ == "__main__":
    script(main)
