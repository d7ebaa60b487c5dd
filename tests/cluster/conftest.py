"""A real Kubernetes cluster: from KUBECONFIG, or started by ../shared/cluster.

All jobs of a module start at once in one namespace, before its first test: by a fixture of the
module that overrides `namespace`. The tests wait for them. A test has its own namespace only if it
labels it, sets a quota for it, or counts all of its objects.
"""

import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from pathlib import Path

import pytest
from namespaces import PYTHON_IMAGE, temporary_namespace
from parts.programs import HOME
from support import ROOT, missing

UP = ROOT.parent / "shared" / "cluster" / "up"
IMAGE = "mlgen.test/ml:1"

MORE_IMAGES = {"torch": ("torch:2", "torch2")}
"""Images whose version is not 1: their tags, and their names in more-images."""

PASSWD = "root:x:0:0::/root:/bin/sh\nmpiuser:x:1000:1000::/home/mpiuser:/bin/sh\n"
"""The users of an image with ssh."""


@pytest.fixture(scope="session")
def environment():
    """Environment variables with which kubectl reaches the cluster."""
    variables = dict(os.environ)
    if "KUBECONFIG" not in variables:
        if not UP.exists():
            missing("there is no cluster: set KUBECONFIG")
        with (Path(tempfile.gettempdir()) / "mlgen-cluster-up").open("w") as lock:
            flock(lock, LOCK_EX)  # one process starts the cluster, and the others find it
            done = subprocess.run([UP], check=True, stdout=subprocess.PIPE, text=True)
            exports = done.stdout.split()[1:]
            variables |= dict(export.split("=", 1) for export in exports)
            variables["PATH"] = variables["PATH"].replace("$PATH", os.environ["PATH"])
            command = [UP.with_name("more-images"), "python"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=variables)
    # The kubelet reports a new image within a minute.
    deadline = time.monotonic() + 60
    while absent := {IMAGE, PYTHON_IMAGE} - images(variables):
        if time.monotonic() > deadline:
            missing(f"the cluster has no image {min(absent)}")
        time.sleep(1)
    return variables


def images(variables):
    """Return the names of the images on the nodes."""
    command = ["kubectl", "get", "nodes", "-o", "json"]
    nodes = subprocess.run(command, check=True, capture_output=True, env=variables)
    return {
        name
        for node in json.loads(nodes.stdout)["items"]
        for image in node["status"]["images"]
        for name in image["names"]
    }


def skip_without(image, name, variables):
    """Report an image that the nodes do not have; `name` is its name in more-images."""
    if image not in images(variables):
        hint = f"`../shared/cluster/more-images {name}` makes it"
        missing(f"the cluster has no image {image}; {hint}")


@pytest.fixture(scope="session")
def here(environment):
    """Address of this machine, which must be the node, so that pods can mount its folders."""
    address = "jsonpath={.items[0].status.addresses[?(@.type=='InternalIP')].address}"
    command = ["kubectl", "get", "nodes", "-o", address]
    result = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    try:
        with socket.create_server((result.stdout, 0)):
            return result.stdout
    except OSError:
        missing("the node is another machine, so pods do not see the folders of this one")


@pytest.fixture(scope="session")
def library(here):  # noqa: ARG001 - pods mount folders of this machine
    """Function that installs packages into a folder, and returns the folder for pods to mount.

    Packages in `source` have no wheels. They are built, and installed without their dependencies.
    The folders are kept for later runs, so the tests name versions.
    """

    def install(folder, *words):
        # Compiling all modules takes longer than installing them, and pods import few of them.
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-compile"]
        command = [*pip, "--target", str(folder), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            missing(f"{words[-1]} cannot be had: {done.stderr[-500:]}")

    def library(*packages, source=(), python="3.11"):
        key = hashlib.sha256(" ".join((python, *packages, *source)).encode()).hexdigest()
        folder = HOME / "libraries" / key
        if not folder.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            new = Path(tempfile.mkdtemp(dir=folder.parent))
            install(new, "--python-version", python, "--only-binary=:all:", *packages)
            if source:
                install(new, "--no-deps", *source)
            new.chmod(0o755)
            new.rename(folder)
        return folder

    return library


@pytest.fixture(scope="module")
def shared_namespace(environment):
    """A namespace shared by all tests of a module."""
    with temporary_namespace(environment) as created:
        yield created


@pytest.fixture(scope="module")
def claim(shared_namespace, here, tmp_path_factory):  # noqa: ARG001 - pods mount a folder
    """The folder of the bound PVC `data`, labeled for the job `all`, as users may do."""
    folder = tmp_path_factory.mktemp("data")
    with bound(shared_namespace, "data", folder, {"mlgen.dev/job": "all"}):
        yield folder


@contextmanager
def bound(namespace, name, folder, labels=None):
    """Create a PVC that is bound to a folder of this machine."""
    volume_name, size = f"{namespace.name}-{name}", {"storage": "1Mi"}
    spec = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume_name}}
    volume["spec"] = spec | {"capacity": size, "hostPath": {"path": str(folder)}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    claim["metadata"] = {"name": name, "labels": labels or {}}
    claim["spec"] = spec | {"resources": {"requests": size}, "volumeName": volume_name}
    for item in (volume, claim):
        namespace.kubectl("apply", "-f", "-", stdin=json.dumps(item))
    yield
    namespace.kubectl("delete", "persistentvolume", volume_name, "--wait=false")


@pytest.fixture
def namespace(environment):
    """A namespace for a single test."""
    with temporary_namespace(environment) as created:
        yield created


def prepare_ssh(namespace):
    """Create the keys and users of jobs over ssh."""
    namespace.kubectl("create", "configmap", "passwd", f"--from-literal=passwd={PASSWD}")
    namespace.kubectl("apply", "-f", "-", stdin=namespace.mlgen("ssh-secret", "keys"))


@pytest.fixture(scope="module")
def launch(environment, jobs):
    """Function that starts the job of a launcher once, in a namespace that `prepare_ssh` prepared.

    The quick tests start their jobs at once, and the long ones when they run. Settings are texts
    such as "spec.options.transport=ssh".
    """
    started = set()

    def launch(namespace, name, file, image, *settings):
        if name in started:
            return
        tag, hint = MORE_IMAGES.get(image, (f"{image}:1", image))
        skip_without(f"mlgen.test/{tag}", hint, environment)
        own = (f"spec.image=mlgen.test/{tag}", "spec.options.sshSecret=keys")
        namespace.start(jobs / file, f"metadata.name={name}", *own, *settings)
        started.add(name)

    return launch


@pytest.fixture(scope="session")
def jobs():
    """Folder of the job files."""
    return Path(__file__).parent / "jobs"
