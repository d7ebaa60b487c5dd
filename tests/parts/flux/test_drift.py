"""Flux reverts changes by people in the cluster, but not changes by the supervisor."""

import pytest
from parts.gitops.repository import job
from parts.gitops.training import Training

pytestmark = pytest.mark.long
FILE = "job.mlgen.yaml"


def test_a_gang_restart_is_no_drift(kustomization, repository, namespace):
    training = Training(namespace, "gang")
    repository.commit(FILE, job("gang"))
    app = kustomization("gang")
    training.runs()
    app.until()
    uids = training.uids()

    training.ends("worker", 143)
    training.stops()
    app.reconcile()
    training.runs()
    assert training.uids() == uids
    assert namespace.record("gang")["restarts"] == "1"

    training.ends("trainer", 0)
    training.ended()
    app.reconcile()
    app.until()
    assert namespace.get("statefulset", "gang-server")["spec"]["replicas"] == 0


def test_what_people_change_is_undone(kustomization, repository, namespace):
    training = Training(namespace, "drift")
    repository.commit(FILE, job("drift"))
    app = kustomization("drift")
    training.runs()
    app.until()
    uids = training.uids()

    namespace.kubectl("label", "service", "drift", "mlgen.dev/job=mine", "--overwrite")
    namespace.kubectl("delete", "rolebinding", "drift-supervisor")
    app.reconcile()
    app.until()
    assert namespace.get("service", "drift")["metadata"]["labels"]["mlgen.dev/job"] == "drift"
    assert namespace.get("rolebinding", "drift-supervisor")
    assert training.uids() == uids
