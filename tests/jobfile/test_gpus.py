"""Processes and the devices that they use."""

import pytest
from support import job_file

import mlgen


@pytest.mark.parametrize(
    ("resources", "most"),
    [
        ({"nvidia.com/gpu": 2}, 2),
        ({"nvidia.com/mig-1g.10gb": 1}, 1),
        ({"huawei.com/Ascend910": 4}, 4),
        ({"google.com/tpu": 4}, 4),
        ({"habana.ai/gaudi": 8}, None),
        ({"aws.amazon.com/neuron": 1}, None),  # several cores
        ({"aliyun.com/gpu-mem": 4}, None),
        ({"nvidia.com/gpu.shared": 1}, None),
        ({"cpu": 4}, None),
    ],
)
def test_more_processes_than_devices(resources, most):
    command = ["torchrun", "--nproc_per_node=8", "train.py"]
    hints = [
        each.hint
        for each in mlgen.validate(job_file(command=command, resources=resources)).problems
    ]

    assert hints == [f"write --nproc_per_node={most}"] * bool(most)
