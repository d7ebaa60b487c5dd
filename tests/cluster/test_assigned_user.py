"""Jobs run as a user that the cluster assigns to each pod, as restricted-v2 of OpenShift does."""

import json

import pytest
from cluster.conftest import prepare_ssh
from cluster.test_mpi import ranks
from namespaces import IMAGES
from support import load_all

pytestmark = pytest.mark.cluster

USER = 1000680000
"""A user without an entry in /etc/passwd of the images. Its group is 0."""


def assigned(item):
    """Return an object as the admission of OpenShift changes its pods."""
    spec = (item.get("spec") or {}).get("template", {}).get("spec")
    if spec:
        spec["securityContext"] = spec.get("securityContext", {}) | {"fsGroup": USER}
        for container in [*spec.get("initContainers", ()), *spec["containers"]]:
            context = container.setdefault("securityContext", {})
            assert not {"runAsUser", "runAsGroup"} & context.keys()
            context["runAsUser"] = USER
    return item


@pytest.fixture
def restricted(namespace):
    label = "pod-security.kubernetes.io/enforce=restricted"
    namespace.kubectl("label", "namespace", namespace.name, label)
    prepare_ssh(namespace)
    return namespace


@pytest.mark.parametrize("transport", ["ssh", "kubectl-exec"])
def test_mpi_runs_as_the_user_that_the_cluster_assigns(restricted, jobs, transport):
    settings = (
        "spec.security={profile: restricted}",
        "spec.helpers.runAsUser=Cluster",
        "spec.runPolicy={cleanPodPolicy: Running}",
        "spec.env.HOME=/tmp",
        f"spec.options={{transport: {transport}, slotsPerWorker: 2}}",
        *["spec.options.sshSecret=keys"][: transport == "ssh"],
    )
    words = [f"--set={setting}" for setting in settings]
    manifests = load_all(restricted.render(jobs / "mpi-ssh.yaml", *IMAGES, *words))
    items = {"apiVersion": "v1", "kind": "List", "items": list(map(assigned, manifests))}
    restricted.kubectl("apply", "-f", "-", stdin=json.dumps(items))

    (lines,) = restricted.completed("cfd-launcher")

    found = sorted(line for line in lines if line.startswith("rank"))
    expected = ranks(["cfd-worker-0", "cfd-worker-1"])
    assert expected == [line.partition(" uid ")[0] for line in found]
    assert all(f"uid {USER}" in line for line in found)
    assert "Complete" == restricted.ended("cfd-supervisor")["type"]
