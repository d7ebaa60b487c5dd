"""A rendezvous at localhost: a warning, unless a replica can only connect to itself."""

import re

import pytest

from mlgen import frameworks
from mlgen.jobfile.model import RoleSpec, SuccessPolicy, TrainingJob


def warned(framework, *specs, **options):
    """The paths of the warnings of a job."""
    job = TrainingJob("m", framework, {spec.name: spec for spec in specs}, options=options)
    warnings = frameworks.get(framework).topology(job).problems
    return [".".join(map(str, p.path)) for p in warnings if "connects only to itself" in p.message]


def worker(replicas=2, **fields):
    return RoleSpec("worker", replicas, **fields)


LOCAL = {"MASTER_ADDR": "localhost"}


def test_a_variable_with_the_address_of_rank_0_names_another_pod():
    rows = [
        ("pytorch", [worker(env=LOCAL)], ["spec.roles.worker.env.MASTER_ADDR"]),
        ("pytorch", [worker(1, env=LOCAL)], []),
        ("pytorch", [worker(env={"MASTER_ADDR": "db"})], []),
        ("pytorch", [RoleSpec("master", env=LOCAL), worker()], []),
        (
            "pytorch",
            [RoleSpec("master"), worker(1, env=LOCAL)],
            ["spec.roles.worker.env.MASTER_ADDR"],
        ),
        ("generic", [worker(env=LOCAL)], []),
        (
            "jax",
            [worker(env={"JAX_COORDINATOR_ADDRESS": "127.0.0.1:99"})],
            ["spec.roles.worker.env.JAX_COORDINATOR_ADDRESS"],
        ),
    ]

    assert [paths for _, _, paths in rows] == [
        warned(framework, *specs) for framework, specs, _ in rows
    ]


@pytest.mark.parametrize(
    ("framework", "command", "count"),
    [
        ("pytorch", "torchrun --rdzv_endpoint=localhost:29500 t.py", 1),
        ("pytorch", "torchrun --rdzv-endpoint localhost:29500 --nnodes 1:4 t.py", 1),
        ("pytorch", "torchrun --rdzv_endpoint=localhost:0 --nnodes=1 t.py", 0),
        ("pytorch", "torchrun --rdzv_endpoint=$MASTER_ADDR:29500 t.py", 0),
        ("pytorch", "python -m torch.distributed.launch --master_addr localhost t.py", 1),
        ("pytorch", "accelerate launch --num_machines 2 --main_process_ip 127.0.0.1 t.py", 1),
        ("generic", "torchrun --rdzv_endpoint=localhost:29500 t.py", 0),
        ("generic", "torchrun --rdzv_endpoint=localhost:29500 --nnodes=2 t.py", 1),
    ],
)
def test_a_launcher_for_several_pods_meets_at_one_of_them(framework, command, count):
    words = tuple(command.split())

    index = next(at for at, word in enumerate(words) if re.search("endpoint|master_addr|_ip", word))
    paths = [f"spec.roles.worker.command.{index}"] * count
    assert paths == warned(framework, worker(command=words))


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "torchrun --nnodes=2 --master_addr=$(hostname) t.py",
            "is a different address in each pod",
        ),
        ("torchrun --nnodes=2 --master_addr=10.42.0.17 t.py", "is the IP address 10.42.0.17"),
        ("torchrun --nnodes=2 --master_addr=master t.py", "is not a replica of this job"),
        ("torchrun --nnodes=2 --master_addr=m-worker-1.m t.py", "is not rank 0 of this job"),
        (
            "torchrun --nnodes=2 --rdzv-id=$RANDOM t.py",
            "--rdzv_id=$RANDOM is different in each pod",
        ),
        ("torchrun --nnodes=2 --master_addr=$MASTER_ADDR t.py", None),
        ("torchrun --nnodes=2 --master_addr=${MASTER_ADDR:-localhost} t.py", None),
        ("torchrun --rdzv_backend=etcd-v2 --rdzv_endpoint=10.0.0.5:2379 t.py", None),
    ],
)
def test_an_address_that_is_not_rank_0(command, message):
    spec = worker(command=("bash", "-c", command))
    job = TrainingJob("m", "pytorch", {"worker": spec}, options={})
    problems = frameworks.get("pytorch").topology(job).problems
    found = [p.message for p in problems if p.code == "launch"]
    assert len(found) == (message is not None)
    assert all(message in text for text in found)


@pytest.mark.parametrize(("host", "count"), [("m-follower-0.m", 0), ("m-follower-1.m", 1)])
def test_each_role_of_a_generic_job_has_its_own_rank_0(host, count):
    command = ("torchrun", "--nnodes=2", "--node_rank=$RANK", f"--master_addr={host}", "t.py")
    roles = {
        "leader": RoleSpec("leader", 1),
        "follower": RoleSpec("follower", 2, command=command),
    }
    job = TrainingJob(
        "m", "generic", roles, options={}, success_policy=SuccessPolicy(role="leader")
    )
    problems = frameworks.get("generic").topology(job).problems

    assert ["is not rank 0" in p.message for p in problems if p.code == "launch"] == [True] * count
