"""A real Kubernetes: the one that KUBECONFIG names, or that of ../shared/cluster."""

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
IMAGES = ("--set", f"spec.helpers.kubectlImage={KUBECTL_IMAGE}")

CRDS = {
    "volcano.sh/volcano@v1.10.0": "config/crd/volcano/bases/scheduling.volcano.sh_podgroups.yaml",
    "sigs.k8s.io/scheduler-plugins@v0.33.5": "config/crd/bases/scheduling.x-k8s.io_podgroups.yaml",
}
"""The PodGroups of other projects: in which Go module, and there in which file."""


@pytest.fixture(scope="session")
def environment():
    """The environment in which kubectl reaches the cluster."""
    found = dict(os.environ)
    if "KUBECONFIG" not in found:
        if not UP.exists():
            pytest.skip("there is no cluster: set KUBECONFIG")
        done = subprocess.run([UP], check=True, stdout=subprocess.PIPE, text=True)
        exports = done.stdout.split()[1:]
        found |= dict(export.split("=", 1) for export in exports)
        found["PATH"] = found["PATH"].replace("$PATH", os.environ["PATH"])
    nodes = subprocess.run(
        ["kubectl", "get", "nodes", "-o", "json"], check=True, capture_output=True, env=found
    )
    images = [
        name
        for node in json.loads(nodes.stdout)["items"]
        for image in node["status"]["images"]
        for name in image["names"]
    ]
    if IMAGE not in images:
        pytest.skip(f"the cluster has no image {IMAGE}")
    return found


@pytest.fixture(scope="session")
def here(environment):
    """The address of this machine, where it is the node, so that pods can mount its folders."""
    address = "jsonpath={.items[0].status.addresses[?(@.type=='InternalIP')].address}"
    command = ["kubectl", "get", "nodes", "-o", address]
    found = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    try:
        with socket.create_server((found.stdout, 0)):
            return found.stdout
    except OSError:
        pytest.skip("the node is another machine, so pods do not see the folders of this one")


@pytest.fixture(scope="session")
def library(here, tmp_path_factory):  # noqa: ARG001 - pods mount what is installed here
    """Brings a library that the image has not; returns its folder, which pods can mount.

    What comes as source alone is given apart; it is made without what it needs.
    """
    found = {}

    def install(folder, *words):
        command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"{words[-1]} cannot be had: {done.stderr[-500:]}")

    def library(*packages, source=()):
        key = (*packages, *source)
        if key not in found:
            folder = tmp_path_factory.mktemp(re.sub(r"\W.*", "", key[-1]))
            install(folder, "--python-version", "3.11", "--only-binary=:all:", *packages)
            if source:
                install(folder, "--no-deps", *source)
            found[key] = folder
        return found[key]

    return library


@pytest.fixture(scope="session")
def pod_groups(environment):
    """The cluster knows the projects' own PodGroups, though nobody schedules by them."""
    for module, file in CRDS.items():
        command = ["go", "mod", "download", "-json", module]
        try:
            done = subprocess.run(command, check=True, capture_output=True, text=True)
        except (FileNotFoundError, subprocess.CalledProcessError) as error:
            pytest.skip(f"{module} cannot be had: {error}")
        path = f"{json.loads(done.stdout)['Dir']}/{file}"
        apply = ["kubectl", "apply", "--server-side", "-f", path]
        subprocess.run(apply, check=True, capture_output=True, env=environment)
        established(path, environment)


def established(path, environment):
    """Wait until the kinds in a file are served; kubectl fails on what has no conditions yet."""
    command = ["kubectl", "wait", "--for=condition=Established", "--timeout=60s", "-f", path]
    deadline = time.monotonic() + 60
    while subprocess.run(command, capture_output=True, env=environment, check=False).returncode:
        assert time.monotonic() < deadline, f"{path} is not served"
        time.sleep(0.5)


class Namespace:
    """A namespace of its own for one test, and what a user does in it."""

    kubectl_image = KUBECTL_IMAGE

    def __init__(self, name, environment):
        self.name, self.environment = name, environment

    def kubectl(self, *words, given=None, check=True):
        """What a command prints."""
        done = self._run(words, given)
        if check and done.returncode:
            raise AssertionError(f"kubectl {' '.join(words)}: {done.stderr}")
        return done.stdout

    def both(self, *words, given=None):
        """What a command prints, and what it says on standard error."""
        done = self._run(words, given)
        return done.stdout, done.stderr

    def _run(self, words, given):
        command = ["kubectl", "-n", self.name, *words]
        return subprocess.run(
            command, input=given, capture_output=True, text=True, env=self.environment, check=False
        )

    def get(self, *words):
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def render(self, file, *words):
        return self.mlgen("render", str(file), *words)

    def mlgen(self, *words):
        """What a command of mlgen prints."""
        command = [sys.executable, "-m", "mlgen", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def apply(self, file, *words):
        """`mlgen render FILE | kubectl apply -f -`, with the images that exist here."""
        return self.kubectl("apply", "-f", "-", given=self.render(file, *IMAGES, *words))

    def argo(self, file, *words):
        """`mlgen argo FILE | kubectl apply --server-side -f -`, likewise."""
        made = self.mlgen("argo", str(file), *IMAGES, *words)
        return self.kubectl("apply", "--server-side", "-f", "-", given=made)

    def until(self, what, found, seconds=180):
        """Ask again until there is an answer; what it is not there in time is told with it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            answer = found()
            if answer:
                return answer
            time.sleep(0.5)
        state = self.kubectl("get", "pods,jobs,statefulsets", "-o", "wide")
        events = self.kubectl("get", "events", "--sort-by=.lastTimestamp")
        raise AssertionError(f"not within {seconds} s: {what}\n{state}\n{events[-4000:]}")

    def ended(self, job, seconds=180):
        """Wait until a Job has ended; return its last condition, Complete or Failed."""

        def terminal():
            conditions = self.get("job", job)["status"].get("conditions", [])
            ends = [c for c in conditions if c["type"] in ("Complete", "Failed")]
            return ends[0] if ends and ends[0]["status"] == "True" else None

        return self.until(f"Job {job} ended", terminal, seconds)

    def scale(self, job, replicas):
        """As the README says: an Indexed Job's two numbers change together."""
        patch = {"spec": {"completions": replicas, "parallelism": replicas}}
        self.kubectl("patch", "job", job, "-p", json.dumps(patch))

    def pods(self, job):
        return self.get("pods", "-l", f"batch.kubernetes.io/job-name={job}")["items"]

    def completed(self, job, seconds=180):
        """Wait until a Job has succeeded; return the lines that its pods printed, by pod."""
        condition = self.ended(job, seconds)
        printed = {pod["metadata"]["name"]: self.log(pod) for pod in self.pods(job)}
        shown = "\n".join(f"{name}: {text}" for name, text in printed.items())
        assert condition["type"] == "Complete", f"{condition}\n{shown}"
        return [text.splitlines() for text in printed.values()]

    def log(self, pod, container=None):
        """What a container of a pod printed; by default the first, which trains."""
        container = container or pod["spec"]["containers"][0]["name"]
        return self.kubectl("logs", pod["metadata"]["name"], "-c", container, check=False)


@pytest.fixture(scope="module")
def shared_namespace(environment):
    """A namespace for all tests of a module."""
    with made(environment) as found:
        yield found


@pytest.fixture
def namespace(environment):
    """A namespace that is there for one test alone."""
    with made(environment) as found:
        yield found


@contextmanager
def made(environment):
    name = f"mlgen-{secrets.token_hex(4)}"
    found = Namespace(name, environment)
    found.kubectl("create", "namespace", name)
    found.until(
        "the service account",
        lambda: found.kubectl("get", "serviceaccount", "default", check=False),
    )
    yield found
    found.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def jobs():
    """The folder of the job files."""
    return Path(__file__).parent / "jobs"
