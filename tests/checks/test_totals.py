"""The total resources of all pods of a job."""

import pytest

from mlgen import validate
from mlgen.checks.prerequisites import totals

JOB = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: mnist}
spec:
  framework: tensorflow
  image: example/mnist:1
  roles:
    chief: {resources: {limits: {cpu: 2, memory: 4Gi}}}
    ps: {replicas: 2, resources: {cpu: 500m, memory: 1Gi}}
    worker: {replicas: 3, resources: {requests: {memory: 2Gi}, limits: {nvidia.com/gpu: 8}}}
"""


def of(text):
    (rendered,) = validate(text).jobs
    return totals(rendered.topology, rendered.objects)


@pytest.mark.parametrize(
    "more", ["", "  network: {host: true}\n", "  runPolicy: {suspend: true}\n"]
)
def test_the_pods_of_all_roles_count_however_they_are_rendered(more):
    assert of(JOB + more).requests == {"cpu": "3", "memory": "12Gi", "nvidia.com/gpu": "24"}


def test_cpu_that_one_role_does_not_limit_has_no_limit():
    """mlgen's init containers end before training starts."""
    assert of(JOB).limits == {"nvidia.com/gpu": "24"}
    assert of(JOB.replace("worker:", "evaluator: {}\n    worker:")).limits == {
        "nvidia.com/gpu": "24"
    }


def test_the_supervisor_and_tensorboard_count_apart():
    more = (
        "  runPolicy: {cleanPodPolicy: All}\n"
        "  volumes: {logs: {mountPath: /logs, pvc: logs}}\n  tensorboard: {logDir: /logs}\n"
    )

    amounts = of(JOB + more)

    assert amounts.requests == of(JOB).requests
    assert amounts.auxiliary == {"cpu": "150m", "memory": "640Mi"}
    assert amounts.auxiliaries == ("tensorboard", "supervisor")


def test_a_job_without_resources_requests_nothing():
    amounts = of(JOB.partition("  roles:")[0] + "  roles: {worker: {replicas: 3}}\n")

    assert ({}, {}, {}) == (amounts.requests, amounts.limits, amounts.auxiliary)
