"""The tutorial that fine-tunes a language model, with a tiny model on CPUs, in a real cluster.

A pod is deleted after the first checkpoint, and training resumes.
"""

import json

import pytest
from cluster.conftest import skip_without
from cluster.test_tutorials import Session
from pages import DOCS

pytestmark = pytest.mark.cluster

IMAGE = "mlgen.test/torch:2"
REPLACEMENTS = {
    "registry.example/llm/train:1": IMAGE,
    "Qwen/Qwen3-0.6B": "tiny",
    "REPORT_TO: wandb": "REPORT_TO: none",
    "nprocPerNode: 8": "nprocPerNode: 1",
    "shmSize: 64Gi": "shmSize: 64Mi",
    "{nvidia.com/gpu: 8, cpu: 32, memory: 256Gi}": "{requests: {cpu: 100m, memory: 512Mi}}",
}


@pytest.fixture
def volumes(namespace, here, tmp_path_factory):  # noqa: ARG001 - pods mount folders
    """Volumes for the page's PVCs, which have no StorageClass."""
    names = []
    for claim in ("data", "checkpoints"):
        spec = {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "200Gi"},
            "claimRef": {"namespace": namespace.name, "name": claim},
            "hostPath": {"path": str(tmp_path_factory.mktemp(claim))},
            "storageClassName": "",
        }
        volume = {"apiVersion": "v1", "kind": "PersistentVolume", "spec": spec}
        volume["metadata"] = {"name": f"{namespace.name}-{claim}"}
        namespace.kubectl("apply", "-f", "-", stdin=json.dumps(volume))
        names.append(volume["metadata"]["name"])
    yield
    namespace.kubectl("delete", "persistentvolumes", *names, "--wait=false")


def test_a_fine_tune_survives_the_loss_of_a_pod(namespace, volumes, tmp_path):  # noqa: ARG001
    skip_without(IMAGE, "torch2", namespace.environment)
    text = "".join(f"{number} times {number} is {number**2}.\n" for number in range(10_000))
    (tmp_path / "train.txt").write_text(text)

    Session(DOCS / "tutorials/fine-tune.md", REPLACEMENTS, tmp_path, namespace).play()

    assert namespace.kubectl("get", "jobs,pods", "-l", "mlgen.dev/job", "-o", "name") == ""
