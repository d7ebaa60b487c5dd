"""An API server and its controllers without nodes, in each version of Kubernetes."""

import pytest
from admission import Server
from namespaces import temporary_namespace

from mlgen.kubernetes import versions

CRDS = {
    "volcano.sh/volcano@v1.10.0": "config/crd/volcano/bases/scheduling.volcano.sh_podgroups.yaml",
    "sigs.k8s.io/scheduler-plugins@v0.33.5": "config/crd/bases/scheduling.x-k8s.io_podgroups.yaml",
}
"""Files with the PodGroup CRDs of other projects, by Go module."""


@pytest.fixture(scope="session")
def version(control_plane):
    """The running version of Kubernetes."""
    return versions.parse(control_plane.version)


@pytest.fixture(scope="session")
def environment(control_plane):
    """Environment variables with which kubectl reaches the control plane."""
    return control_plane.environment


@pytest.fixture(scope="session")
def pod_groups(control_plane, module):
    """Install the PodGroup CRDs of other projects, without their schedulers."""
    for name, file in CRDS.items():
        control_plane.define(module(name) / file)


@pytest.fixture(scope="module")
def shared_namespace(environment):
    """A namespace shared by all tests of a module."""
    with temporary_namespace(environment) as created:
        yield created


@pytest.fixture
def namespace(environment):
    """A namespace for a single test."""
    with temporary_namespace(environment) as created:
        yield created


@pytest.fixture(scope="module")
def server(environment, shared_namespace):
    """The API server, which checks objects in a namespace."""
    return Server(environment["KUBECONFIG"], shared_namespace.name)
