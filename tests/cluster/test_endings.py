"""The end of jobs: other ranks survive the end of rank 0, and sidecars are stopped."""

import pytest

pytestmark = pytest.mark.cluster

RETRIED = (
    "metadata.name=retried",
    "spec.roles.worker.replicas=0",
    "spec.command=[sh, -c, exit 1]",
    "spec.runPolicy.backoffLimit=1",
)


@pytest.fixture(scope="module")
def namespace(shared_namespace, request):
    """A namespace in which both jobs run at once."""
    job = request.path.parent / "jobs/endings.yaml"
    shared_namespace.apply(job)
    shared_namespace.apply(job, *(f"--set={setting}" for setting in RETRIED))
    return shared_namespace


def test_all_ranks_save_their_shards_after_rank_0_has_ended(namespace):
    logs = namespace.completed("endings-rank", 90)

    assert sorted(line for log in logs for line in log) == [
        f"shard {rank} is saved" for rank in range(3)
    ]


def test_a_backoff_limit_retries_a_role_that_never_restarts(namespace):
    condition = namespace.ended("retried-master", 90)

    assert condition["reason"] == "BackoffLimitExceeded"
    assert len(namespace.pods("retried-master")) == 2
