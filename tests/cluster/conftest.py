"""A real Kubernetes cluster: that of KUBECONFIG, or the one that ../shared/cluster starts."""

import json
import os
import re
import secrets
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from support import ROOT

UP = ROOT.parent / "shared" / "cluster" / "up"
IMAGE = "mlgen.test/ml:1"
KUBECTL_IMAGE = "mlgen.test/kubectl:1.34"
PYTHON_IMAGE = "mlgen.test/python:3"
IMAGES = (
    "--set",
    f"spec.helpers.kubectlImage={KUBECTL_IMAGE}",
    "--set",
    f"spec.helpers.pythonImage={PYTHON_IMAGE}",
)

CRDS = {
    "volcano.sh/volcano@v1.10.0": "config/crd/volcano/bases/scheduling.volcano.sh_podgroups.yaml",
    "sigs.k8s.io/scheduler-plugins@v0.33.5": "config/crd/bases/scheduling.x-k8s.io_podgroups.yaml",
}
"""Files with the PodGroup CRDs of other projects, by Go module."""


@pytest.fixture(scope="session")
def environment():
    """Environment variables with which kubectl reaches the cluster."""
    variables = dict(os.environ)
    if "KUBECONFIG" not in variables:
        if not UP.exists():
            pytest.skip("there is no cluster: set KUBECONFIG")
        done = subprocess.run([UP], check=True, stdout=subprocess.PIPE, text=True)
        exports = done.stdout.split()[1:]
        variables |= dict(export.split("=", 1) for export in exports)
        variables["PATH"] = variables["PATH"].replace("$PATH", os.environ["PATH"])
        command = [UP.with_name("more-images"), "python"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=variables)
    # The kubelet reports a new image within a minute.
    deadline = time.monotonic() + 60
    while missing := {IMAGE, PYTHON_IMAGE} - images(variables):
        if time.monotonic() > deadline:
            pytest.skip(f"the cluster has no image {min(missing)}")
        time.sleep(1)
    return variables


def images(variables):
    """Return the names of the images that the nodes have."""
    command = ["kubectl", "get", "nodes", "-o", "json"]
    nodes = subprocess.run(command, check=True, capture_output=True, env=variables)
    return {
        name
        for node in json.loads(nodes.stdout)["items"]
        for image in node["status"]["images"]
        for name in image["names"]
    }


@pytest.fixture(scope="session")
def here(environment):
    """Address of this machine if it is the node, so that pods can mount its folders."""
    address = "jsonpath={.items[0].status.addresses[?(@.type=='InternalIP')].address}"
    command = ["kubectl", "get", "nodes", "-o", address]
    result = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    try:
        with socket.create_server((result.stdout, 0)):
            return result.stdout
    except OSError:
        pytest.skip("the node is another machine, so pods do not see the folders of this one")


@pytest.fixture(scope="session")
def library(here, tmp_path_factory):  # noqa: ARG001 - pods mount folders of this machine
    """Function that installs packages which the image lacks; returns a folder that pods can mount.

    Packages in `source` have no wheels; they are built, and installed without their dependencies.
    """
    folders = {}

    def install(folder, *words):
        command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"{words[-1]} cannot be had: {done.stderr[-500:]}")

    def library(*packages, source=()):
        key = (*packages, *source)
        if key not in folders:
            folder = tmp_path_factory.mktemp(re.sub(r"\W.*", "", key[-1]))
            install(folder, "--python-version", "3.11", "--only-binary=:all:", *packages)
            if source:
                install(folder, "--no-deps", *source)
            folders[key] = folder
        return folders[key]

    return library


@pytest.fixture(scope="session")
def pod_groups(environment):
    """Install the PodGroup CRDs of other projects, without their schedulers."""
    for module, file in CRDS.items():
        command = ["go", "mod", "download", "-json", module]
        try:
            done = subprocess.run(command, check=True, capture_output=True, text=True)
        except (FileNotFoundError, subprocess.CalledProcessError) as error:
            pytest.skip(f"{module} cannot be had: {error}")
        path = f"{json.loads(done.stdout)['Dir']}/{file}"
        apply = ["kubectl", "apply", "--server-side", "-f", path]
        subprocess.run(apply, check=True, capture_output=True, env=environment)
        wait_until_established(path, environment)


def wait_until_established(path, environment):
    """Wait until CRDs are established; `kubectl wait` fails while they have no conditions."""
    command = ["kubectl", "wait", "--for=condition=Established", "--timeout=60s", "-f", path]
    deadline = time.monotonic() + 60
    while subprocess.run(command, capture_output=True, env=environment, check=False).returncode:
        assert time.monotonic() < deadline, f"{path} is not served"
        time.sleep(0.5)


class Namespace:
    """A namespace, and the commands that a user runs in it."""

    images = IMAGES
    python_image = PYTHON_IMAGE

    def __init__(self, name, environment):
        self.name, self.environment = name, environment

    def kubectl(self, *words, stdin=None, check=True):
        """Run kubectl and return its stdout."""
        done = self._run(words, stdin)
        if check and done.returncode:
            raise AssertionError(f"kubectl {' '.join(words)}: {done.stderr}")
        return done.stdout

    def stdout_and_stderr(self, *words, stdin=None):
        """Run kubectl and return its stdout and stderr."""
        done = self._run(words, stdin)
        return done.stdout, done.stderr

    def _run(self, words, stdin):
        command = ["kubectl", "-n", self.name, *words]
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, env=self.environment, check=False
        )

    def get(self, *words):
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def render(self, file, *words):
        return self.mlgen("render", str(file), *words)

    def mlgen(self, *words, stdin=None):
        """Run mlgen and return its stdout."""
        command = [sys.executable, "-m", "mlgen", *words]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def apply(self, file, *words):
        """`mlgen render FILE | kubectl apply -f -`, with images that the cluster has."""
        return self.kubectl("apply", "-f", "-", stdin=self.render(file, *IMAGES, *words))

    def argo(self, file, *words):
        """`mlgen argo FILE | kubectl apply --server-side -f -`, with the same images."""
        manifests = self.mlgen("argo", str(file), *IMAGES, *words)
        return self.kubectl("apply", "--server-side", "-f", "-", stdin=manifests)

    def until(self, description, poll, seconds=180):
        """Poll until the answer is true and return it; on timeout, show the pods and events."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            answer = poll()
            if answer:
                return answer
            time.sleep(0.5)
        state = self.kubectl("get", "pods,jobs,statefulsets", "-o", "wide")
        events = self.kubectl("get", "events", "--sort-by=.lastTimestamp")
        raise AssertionError(f"not within {seconds} s: {description}\n{state}\n{events[-4000:]}")

    def ended(self, job, seconds=180):
        """Wait until a Job has ended; return its last condition, Complete or Failed."""

        def terminal():
            conditions = self.get("job", job)["status"].get("conditions", [])
            ends = [c for c in conditions if c["type"] in ("Complete", "Failed")]
            return ends[0] if ends and ends[0]["status"] == "True" else None

        return self.until(f"Job {job} ended", terminal, seconds)

    def record(self, job):
        """Return what the supervisor records of a job: the data of the ConfigMap `<job>-status`."""
        return self.get("configmap", f"{job}-status").get("data", {})

    def conditions(self, job):
        """Return the status, time, and reason with message of each condition in the record."""
        data = self.record(job)
        return {key: text.split(" ", 2) for key, text in data.items() if key[0].isupper()}

    def active(self, job):
        """Return the pods of a job that have not ended, by role, without the supervisor's."""
        pods = {}
        for pod in self.get("pods", "-l", f"mlgen.dev/job={job}")["items"]:
            if pod["status"]["phase"] in ("Pending", "Running"):
                pods.setdefault(pod["metadata"]["labels"]["mlgen.dev/role"], []).append(pod)
        return pods

    def scale(self, job, replicas):
        """Scale an Indexed Job as the README says: completions and parallelism change together."""
        patch = {"spec": {"completions": replicas, "parallelism": replicas}}
        self.kubectl("patch", "job", job, "-p", json.dumps(patch))

    def pods(self, job):
        return self.get("pods", "-l", f"batch.kubernetes.io/job-name={job}")["items"]

    def completed(self, job, seconds=180):
        """Wait until a Job has succeeded; return the log of each of its pods as a list of lines."""
        condition = self.ended(job, seconds)
        logs = {pod["metadata"]["name"]: self.log(pod) for pod in self.pods(job)}
        summary = "\n".join(f"{name}: {text}" for name, text in logs.items())
        assert condition["type"] == "Complete", f"{condition}\n{summary}"
        return [text.splitlines() for text in logs.values()]

    def log(self, pod, container=None):
        """Return the log of a container, by default the pod's first, which trains."""
        container = container or pod["spec"]["containers"][0]["name"]
        return self.kubectl("logs", pod["metadata"]["name"], "-c", container, check=False)


@pytest.fixture(scope="module")
def shared_namespace(environment):
    """A namespace shared by all tests of a module."""
    with temporary_namespace(environment) as created:
        yield created


@pytest.fixture(scope="module")
def claim(shared_namespace, here, tmp_path_factory):  # noqa: ARG001 - pods mount a folder
    """The folder of a bound claim, `data`, with the label of the job `all`, as users may add it."""
    name, folder = f"{shared_namespace.name}-data", tmp_path_factory.mktemp("data")
    spec = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    size = {"storage": "1Mi"}
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}}
    volume["spec"] = spec | {"capacity": size, "hostPath": {"path": str(folder)}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    claim["metadata"] = {"name": "data", "labels": {"mlgen.dev/job": "all"}}
    claim["spec"] = spec | {"resources": {"requests": size}, "volumeName": name}
    for item in (volume, claim):
        shared_namespace.kubectl("apply", "-f", "-", stdin=json.dumps(item))
    yield folder
    shared_namespace.kubectl("delete", "persistentvolume", name, "--wait=false")


@pytest.fixture
def namespace(environment):
    """A namespace for a single test."""
    with temporary_namespace(environment) as created:
        yield created


@contextmanager
def temporary_namespace(environment):
    name = f"mlgen-{secrets.token_hex(4)}"
    created = Namespace(name, environment)
    created.kubectl("create", "namespace", name)
    created.until(
        "the service account",
        lambda: created.kubectl("get", "serviceaccount", "default", check=False),
    )
    yield created
    # Pods are deleted before Jobs, and a failed pod of a Job with backoffLimitPerIndex stays until
    # there is another, which a namespace that is being deleted does not allow.
    created.kubectl("delete", "jobs", "--all", "--wait=false")
    created.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def jobs():
    """Folder of the job files."""
    return Path(__file__).parent / "jobs"
