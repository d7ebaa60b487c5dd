"""Fields that operators accept, but that plain Kubernetes lacks, also train."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster

RESOURCES = Path(__file__).parent / "resources"


def test_an_elastic_pytorchjob_with_a_master_trains(namespace):
    namespace.apply(RESOURCES / "pytorchjob-lenient.yaml")

    for job in ("vit-master", "vit-worker"):
        ((line,),) = [[line for line in log if "world" in line] for log in namespace.completed(job)]
        assert line == "world 2 sum 3.0"


def test_the_claim_of_a_jobset_is_created_with_it_and_outlives_it(namespace, tmp_path):
    name, folder = f"{namespace.name}-data", tmp_path / "data"
    folder.mkdir()
    spec = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "capacity": {"storage": "1Mi"},
    }
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}}
    volume["spec"] = spec | {"hostPath": {"path": str(folder)}}
    namespace.kubectl("apply", "-f", "-", stdin=json.dumps(volume))
    text = (RESOURCES / "jobset-claim.yaml").read_text().replace("VOLUME", name)
    (tmp_path / "jobset.yaml").write_text(text)

    namespace.apply(tmp_path / "jobset.yaml")

    assert namespace.completed("tune-trainer-0") == [["42"]]
    namespace.kubectl("delete", "jobs,services", "-l", "mlgen.dev/job=tune")
    claim = namespace.get("persistentvolumeclaim", "data-tune")
    assert claim["status"]["phase"] == "Bound"
    assert "deletionTimestamp" not in claim["metadata"]
    namespace.kubectl("delete", "persistentvolume", name, "--wait=false")
