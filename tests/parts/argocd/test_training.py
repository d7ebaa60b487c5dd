"""A job in Git trains once, and again only if its pods change."""

import pytest
from parts.gitops.repository import ROLES, job
from parts.gitops.training import Training, replaced

pytestmark = pytest.mark.long
FILE, OTHER = "job.mlgen.yaml", "other.mlgen.yaml"
HASH = {"nameSuffix": "hash"}


def test_a_job_trains_once(application, repository, namespace):
    training = Training(namespace, "once")
    repository.commit(FILE, job("once"))
    app = application("once")
    app.until(health="Progressing")
    training.runs()  # the workers' Job is suspended in Git, and resumed by the supervisor
    assert app.out_of_sync() == set()
    uids = training.uids()

    app.sync()
    training.ends("trainer", 0)
    training.ended()
    app.until(health="Healthy")
    app.sync()
    repository.commit(OTHER, job("other"))
    app.until(health="Progressing")

    assert training.uids() == uids
    assert training.is_stopped()

    repository.commit(OTHER, None)
    app.until(health="Healthy")
    assert Training(namespace, "other").uids() == {}
    assert training.uids() == uids


def test_all_jobs_are_recreated_if_one_changes(application, repository, namespace):
    training = Training(namespace, "again")
    repository.commit(FILE, job("again"))
    app = application("again")
    training.runs()
    before = training.uids()
    training.ends("trainer", 0)
    training.ended()

    roles = ROLES | {"trainer": {"env": {"LR": "0.1"}}}
    repository.commit(FILE, job("again", roles=roles))
    app.until(health="Progressing")
    training.runs()
    after = training.uids()
    assert before.keys() == after.keys()
    assert not set(before.values()) & set(after.values())

    app.sync()
    training.ends("trainer", 0)
    training.ended()
    app.until(health="Healthy")
    assert training.uids() == after


def test_a_job_with_a_hash_in_its_name_is_replaced_and_rolled_back(
    application, repository, namespace
):
    repository.commit(FILE, job("hashed", HASH))
    app = application("hashed")
    first = replaced(namespace, "hashed", "")
    repository.commit(FILE, job("hashed", HASH, env={"LR": "0.1"}))
    app.until(health="Progressing")
    second = replaced(namespace, "hashed", first)

    repository.revert()
    app.until(health="Progressing")
    assert replaced(namespace, "hashed", second) == first

    app.automated(on=False)
    app.rollback(-2)
    assert replaced(namespace, "hashed", first) == second
