"""A job in Git trains once, and again only if its pods change."""

import pytest
from parts.gitops.repository import ROLES, job
from parts.gitops.training import Training, replaced

pytestmark = pytest.mark.long
FILE, OTHER = "job.mlgen.yaml", "other.mlgen.yaml"
HASH = {"nameSuffix": "hash"}


def test_a_job_trains_once(kustomization, repository, namespace):
    training = Training(namespace, "once")
    repository.commit(FILE, job("once"))
    app = kustomization("once")
    training.runs()
    app.until()
    uids = training.uids()

    app.reconcile()
    assert training.uids() == uids
    training.runs()
    training.ends("trainer", 0)
    training.ended()
    app.reconcile()
    app.until()

    repository.commit(OTHER, job("other"))
    app.push()
    app.until()
    Training(namespace, "other").runs()
    assert training.uids() == uids
    assert training.is_stopped()

    repository.commit(OTHER, None)
    app.push()
    app.until()
    assert Training(namespace, "other").uids() == {}
    assert training.uids() == uids


def test_all_jobs_are_recreated_if_one_changes(kustomization, repository, namespace):
    training = Training(namespace, "again")
    repository.commit(FILE, job("again"))
    app = kustomization("again")
    training.runs()
    before = training.uids()
    training.ends("trainer", 0)
    training.ended()

    roles = ROLES | {"trainer": {"env": {"LR": "0.1"}}}
    repository.commit(FILE, job("again", roles=roles))
    app.push()
    app.until()
    training.runs()
    after = training.uids()
    assert before.keys() == after.keys()
    assert not set(before.values()) & set(after.values())


def test_a_job_with_a_hash_in_its_name_is_replaced_and_reverted(
    kustomization, repository, namespace
):
    repository.commit(FILE, job("hashed", HASH))
    app = kustomization("hashed")
    first = replaced(namespace, "hashed", "")
    repository.commit(FILE, job("hashed", HASH, env={"LR": "0.1"}))
    app.push()
    second = replaced(namespace, "hashed", first)

    repository.revert()
    app.push()
    assert replaced(namespace, "hashed", second) == first
