"""PyTorch 2 trains with torchrun, accelerate, transformers and TRL, all jobs at once."""

import json

import pytest
from cluster.conftest import skip_without

pytestmark = pytest.mark.cluster

IMAGE = "mlgen.test/torch:2"

RANK_0 = "--main_process_ip $MASTER_ADDR --main_process_port $MASTER_PORT --machine_rank $RANK"
COUNTS = "--multi_gpu --num_machines 2 --num_processes 2"
ACCELERATE = {
    # It starts one process by itself, without torchrun.
    "plain": ["accelerate", "launch", "train.py"],
    # It starts several with torchrun, which reads PET_*.
    "processes": ["accelerate", "launch", "--multi_gpu", "--num_processes=2", "train.py"],
    "machines": ["bash", "-c", f"exec accelerate launch {COUNTS} {RANK_0} train.py"],
    "config": ["bash", "-c", f"exec accelerate launch --config_file config.yaml {RANK_0} train.py"],
}
"""The commands by the name of the job."""

TRL = ["trl==1.16.0", "datasets", "dill", "jinja2", "markupsafe", "multiprocess", "pandas"]
TRL += ["pyarrow", "python-dateutil", "xxhash"]
"""TRL, and its dependencies that the image lacks."""


@pytest.fixture(scope="module")
def namespace(shared_namespace, claim, library, request):
    """The namespace, in which a pod of the Trainer is deleted after its first checkpoint."""
    namespace, jobs = shared_namespace, request.path.parent / "jobs"
    skip_without(IMAGE, "torch2", namespace.environment)
    folder = library("--no-deps", *TRL, python="3.13")
    namespace.apply(jobs / "trl.yaml", "--set", f"spec.volumes.library.hostPath={folder}")
    namespace.apply(jobs / "pytorch-2.yaml")
    for name, command in ACCELERATE.items():
        settings = (f"metadata.name={name}", f"spec.command={json.dumps(command)}")
        words = (word for setting in settings for word in ("--set", setting))
        namespace.apply(jobs / "accelerate.yaml", *words)
    saved = claim / "checkpoint-2" / "trainer_state.json"
    namespace.until("the first checkpoint", saved.exists)
    _, last = namespace.active("trainer")["worker"]
    namespace.kubectl("delete", "pod", last["metadata"]["name"], "--wait=false")
    return namespace


@pytest.mark.parametrize(
    ("job", "ranks"),
    [("plain", 2), ("processes", 4), ("machines", 2), ("config", 2), ("titan", 4), ("sft", 2)],
)
def test_all_ranks_train_together(namespace, job, ranks):
    printed = namespace.completed(f"{job}-worker")

    total = sum(range(1, ranks + 1))
    lines = [line[line.find("rank ") :] for log in printed for line in log if " sum " in line]
    end = f"of {ranks} sum {total}.0"
    assert sorted(lines) == [f"rank {rank} {end}" for rank in range(ranks)]


def test_trainer_continues_from_its_checkpoint_after_a_pod_was_deleted(namespace):
    printed = namespace.completed("trainer-worker")

    lines = sorted(line for log in printed for line in log if line.startswith("rank "))
    assert lines == [f"rank {rank} of 2 from /checkpoints/checkpoint-2 steps 4" for rank in (0, 1)]
    assert namespace.record("trainer")["disruptions"] == "1"
