"""PyTorch 2 trains with torchrun, accelerate and transformers, all jobs at once."""

import json

import pytest
from cluster.conftest import skip_without

pytestmark = pytest.mark.cluster

IMAGE = "mlgen.test/torch:2"

MACHINES = """
exec accelerate launch --multi_gpu --num_machines 2 --num_processes 2 --machine_rank $RANK \\
  --main_process_ip $MASTER_ADDR --main_process_port $MASTER_PORT train.py
"""
ACCELERATE = {
    # It starts one process by itself, without torchrun.
    "plain": ["accelerate", "launch", "train.py"],
    # It starts several with torchrun, which reads PET_*.
    "processes": ["accelerate", "launch", "--multi_gpu", "--num_processes=2", "train.py"],
    "machines": ["bash", "-c", MACHINES],
}
"""The commands by the name of the job."""


@pytest.fixture(scope="module")
def namespace(shared_namespace, claim, request):
    """The namespace, in which a pod of the Trainer is deleted after its first checkpoint."""
    namespace, jobs = shared_namespace, request.path.parent / "jobs"
    skip_without(IMAGE, "torch2", namespace.environment)
    namespace.apply(jobs / "pytorch-2.yaml")
    for name, command in ACCELERATE.items():
        settings = (f"metadata.name={name}", f"spec.command={json.dumps(command)}")
        words = (word for setting in settings for word in ("--set", setting))
        namespace.apply(jobs / "accelerate.yaml", *words)
    saved = claim / "checkpoint-2" / "trainer_state.json"
    namespace.until("the first checkpoint", saved.exists, 300)
    _, last = namespace.active("trainer")["worker"]
    namespace.kubectl("delete", "pod", last["metadata"]["name"], "--wait=false")
    return namespace


@pytest.mark.parametrize(
    ("job", "ranks"),
    [("plain", 2), ("processes", 4), ("machines", 2), ("titan", 4)],
)
def test_all_ranks_train_together(namespace, job, ranks):
    printed = namespace.completed(f"{job}-worker", 300)

    total = sum(range(1, ranks + 1))
    lines = [line[line.find("rank ") :] for log in printed for line in log if " sum " in line]
    assert sorted(lines) == [f"rank {rank} of {ranks} sum {total}.0" for rank in range(ranks)]


def test_trainer_continues_from_its_checkpoint_after_a_pod_was_deleted(namespace):
    printed = namespace.completed("trainer-worker", 300)

    lines = sorted(line for log in printed for line in log if line.startswith("rank "))
    assert lines == [f"rank {rank} of 2 from /checkpoints/checkpoint-2 steps 4" for rank in (0, 1)]
    assert namespace.record("trainer")["disruptions"] == "1"
