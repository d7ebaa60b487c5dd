"""An API server and its controllers without nodes, in each version of Kubernetes."""

import json

import pytest
import yaml
from admission import Server
from namespaces import temporary_namespace

from mlgen.kubernetes import versions

CRDS = {
    "volcano.sh/volcano@v1.10.0": "config/crd/volcano/bases/scheduling.volcano.sh_podgroups.yaml",
    "sigs.k8s.io/scheduler-plugins@v0.33.5": "config/crd/bases/scheduling.x-k8s.io_podgroups.yaml",
    "github.com/NVIDIA/KAI-scheduler@v0.12.0": (
        "deployments/kai-scheduler/crds/scheduling.run.ai_podgroups.yaml"
    ),
}
"""Files with the PodGroup CRDs of other projects, by Go module."""

NEWER = {
    "scheduling.volcano.sh": {
        "networkTopology": {
            "type": "object",
            "properties": {
                "mode": {"type": "string", "enum": ["hard", "soft"]},
                "highestTierAllowed": {"type": "integer"},
                "highestTierName": {"type": "string"},
            },
        }
    }
}
"""Fields that a newer version adds to `spec`, by API group, because its Go module is not served:
Volcano 1.14, staging/src/volcano.sh/apis/pkg/apis/scheduling/v1beta1/types.go."""


@pytest.fixture(scope="session")
def version(control_plane):
    """The running version of Kubernetes."""
    return versions.parse(control_plane.version)


@pytest.fixture(scope="session")
def environment(control_plane):
    """Environment variables with which kubectl reaches the control plane."""
    return control_plane.environment


@pytest.fixture(scope="session")
def pod_groups(control_plane, module, tmp_path_factory):
    """Install the PodGroup CRDs of other projects, without their schedulers."""
    for name, file in CRDS.items():
        definition = yaml.safe_load((module(name) / file).read_text())
        spec = definition["spec"]
        for version in spec["versions"]:
            schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
            schema["properties"] |= NEWER.get(spec["group"], {})
        path = tmp_path_factory.mktemp("definitions") / "definition.json"
        path.write_text(json.dumps(definition))
        control_plane.define(path)


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
