"""The operator of docs/integrations/airflow.md, with stubs for Airflow and the cluster.

tests/cluster/test_guides.py runs it in a real cluster.
"""

from types import SimpleNamespace

import pytest
from dag import operator
from support import ROOT

import mlgen

FILE = ROOT / "fixtures/pytorch-static.yaml"


class Cluster:
    """A cluster with one job, whose next phases are in `runs`."""

    phase, runs, calls = "", [], []

    def __init__(self, namespace):
        assert namespace == "team-a"

    def apply(self, jobs):
        (job,) = jobs
        self.calls.append(f"apply {job.name}")
        if not self.phase:
            action = "created"
            Cluster.phase = self.runs.pop(0)
        else:
            action = "unchanged" if self.phase == "Running" else "ended"
        return [SimpleNamespace(action=action)]

    def status(self, name):
        return SimpleNamespace(name=name, phase=self.phase, message="")

    def rerun(self, name):
        self.calls.append(f"rerun {name}")
        Cluster.phase = self.runs.pop(0)

    def wait(self, name):
        yield self.status(name)
        if self.phase == "Running":
            Cluster.phase = self.runs.pop(0)
            yield self.status(name)

    def delete(self, name):
        self.calls.append(f"delete {name}")


@pytest.fixture
def train(monkeypatch):
    """Return a function that makes the task, in a cluster with these phases."""
    monkeypatch.setattr(mlgen, "Cluster", Cluster)
    made = operator(monkeypatch)

    def task(phase, *runs):
        Cluster.phase, Cluster.runs, Cluster.calls = phase, list(runs), []
        return made(str(FILE), "bert-20260101", {"spec.env.LR": "0.1"}, task_id="bert", retries=2)

    return task


@pytest.mark.parametrize(
    ("phase", "runs", "calls"),
    [
        ("", ["Running", "Succeeded"], ["apply bert-20260101"]),
        ("Running", ["Succeeded"], ["apply bert-20260101"]),
        ("Succeeded", [], ["apply bert-20260101"]),
        ("Failed", ["Running", "Succeeded"], ["apply bert-20260101", "rerun bert-20260101"]),
    ],
)
def test_a_try_ends_when_training_has_succeeded(train, phase, runs, calls):
    train(phase, *runs).execute({})

    assert ("Succeeded", [], calls) == (Cluster.phase, Cluster.runs, Cluster.calls)


def test_a_try_fails_if_training_fails(train):
    with pytest.raises(RuntimeError, match="bert-20260101: Failed"):
        train("", "Running", "Failed").execute({})


def test_the_end_of_a_task_deletes_the_job(train):
    train("Running").on_kill()

    assert ["delete bert-20260101"] == Cluster.calls
