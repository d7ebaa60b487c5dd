"""A rendezvous at localhost: a warning, unless a replica can only connect to itself."""

import pytest

from mlgen import frameworks
from mlgen.jobfile.model import RoleSpec, TrainingJob


def warned(framework, *specs, **options):
    """The paths of the warnings of a job."""
    job = TrainingJob("m", framework, {spec.name: spec for spec in specs}, options=options)
    warnings = frameworks.get(framework).topology(job).warnings
    return [".".join(map(str, p.path)) for p in warnings if "localhost" in p.message]


def worker(replicas=2, **fields):
    return RoleSpec("worker", replicas, **fields)


LOCAL = {"MASTER_ADDR": "localhost"}


@pytest.mark.parametrize(
    ("framework", "specs", "paths"),
    [
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
    ],
)
def test_a_variable_with_the_address_of_rank_0_names_another_pod(framework, specs, paths):
    assert paths == warned(framework, *specs)


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

    assert ["spec.roles.worker.command"] * count == warned(framework, worker(command=words))
