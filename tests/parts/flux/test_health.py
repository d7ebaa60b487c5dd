"""With `wait: true`, a Kustomization is ready when its jobs have succeeded."""

import pytest
from parts.gitops.repository import job
from parts.gitops.training import Training

pytestmark = pytest.mark.long
FILE = "job.mlgen.yaml"


@pytest.fixture
def waits(kustomization, repository, namespace):
    """Function that runs a job in a Kustomization that waits until it times out, and ends it."""

    def waits(name, code):
        training = Training(namespace, name)
        repository.commit(FILE, job(name, restartPolicy="Never"))
        app = kustomization(name, wait=True, timeout="30s", retryInterval="5m")
        training.runs()
        assert f"{name}-trainer status: 'InProgress'" in app.until("False", "HealthCheckFailed")

        training.ends("trainer", code)
        training.ended()
        app.reconcile()
        return app

    return waits


def test_it_is_ready_when_the_job_is_complete(waits):
    waits("succeeds", 0).until("True", "ReconciliationSucceeded")


def test_it_is_not_ready_when_the_job_has_failed(waits):
    app = waits("fails", 3)
    assert "fails-trainer status: 'Failed'" in app.until("False", "HealthCheckFailed")
