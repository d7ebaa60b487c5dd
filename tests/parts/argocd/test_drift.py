"""Argo CD reverts changes by people in the cluster, but not changes by the supervisor."""

import pytest
from parts.gitops.repository import job
from parts.gitops.training import Training

pytestmark = pytest.mark.long
FILE, COMPONENT = "job.mlgen.yaml", "app.kubernetes.io/component"


def test_a_gang_restart_is_no_drift(application, repository, namespace):
    training = Training(namespace, "gang")
    repository.commit(FILE, job("gang"))
    app = application("gang")
    training.runs()
    uids = training.uids()

    training.ends("worker", 143)
    training.stops()
    assert app.out_of_sync() == set()
    training.runs()
    assert app.out_of_sync() == set()
    assert training.uids() == uids
    assert namespace.record("gang")["restarts"] == "1"

    training.ends("trainer", 0)
    training.ended()
    app.until(health="Healthy")
    assert namespace.get("statefulset", "gang-server")["spec"]["replicas"] == 0


def test_a_gang_restarts_ten_times_while_changes_are_undone(application, repository, namespace):
    """Each delay is short, because two seconds of running forgive earlier failures."""
    policy = {"restartScope": "All", "cleanPodPolicy": "Running", "backoffResetSeconds": 2}
    policy |= {"giveUpAfter": {"startFailures": 0, "startSeconds": 1}}
    training = Training(namespace, "often")
    repository.commit(FILE, job("often", runPolicy=policy))
    app = application("often")
    training.runs()
    uids = training.uids()

    pods = (("trainer", min), ("worker", min), ("worker", max))
    mine = ("jobs,statefulsets,services", "-l", f"mlgen.dev/job=often,{COMPONENT}=mine")
    objects = ("job/often-trainer", "statefulset/often-server", "service/often")
    for number, (role, pick) in enumerate([*pods * 3, *pods[:1]], 1):
        training.ends(role, 143, pick)
        for each in objects:
            namespace.kubectl("label", each, f"{COMPONENT}=mine", "--overwrite")
        namespace.recorded("often", lambda record, n=number: record["restarts"] == str(n))
        namespace.until("changes are undone", lambda: not namespace.get(*mine)["items"])
        training.runs()

    assert app.out_of_sync() == set()
    assert training.uids() == uids
    record = namespace.record("often")
    assert (record["restarts"], record["disruptions"]) == ("10", "0")
    training.ends("trainer", 0)
    training.ended()
    app.until(health="Healthy")


def test_what_people_change_is_shown_and_undone(application, repository, namespace):
    training = Training(namespace, "drift")
    repository.commit(FILE, job("drift", runPolicy={"cleanPodPolicy": "Running"}))
    app = application("drift")
    app.until(health="Progressing")
    training.runs()
    uids = training.uids()

    app.automated(on=False)
    namespace.kubectl("scale", "statefulset", "drift-server", "--replicas=3")
    namespace.kubectl("patch", "job", "drift-supervisor", "-p", '{"spec": {"backoffLimit": 1}}')
    app.until("OutOfSync", "Progressing")
    assert app.out_of_sync() == {"drift-server", "drift-supervisor"}

    app.automated(on=True)
    app.until(health="Progressing")
    assert namespace.get("job", "drift-supervisor")["spec"]["backoffLimit"] == 100
    assert namespace.get("statefulset", "drift-server")["spec"]["replicas"] == 2
    assert training.uids() == uids


def test_a_job_that_fails_is_degraded_and_one_that_is_suspended_is_suspended(
    application, repository, namespace
):
    training = Training(namespace, "fails")
    repository.commit(FILE, job("fails", restartPolicy="Never"))
    app = application("fails")
    training.runs()
    training.ends("worker", 3)
    training.ended()
    app.until(health="Degraded")

    repository.commit(FILE, None)
    repository.commit("waits.mlgen.yaml", job("waits", runPolicy={"suspend": True}))
    app.until(health="Suspended")


def test_a_changed_annotation_restarts_a_role_that_waits(application, repository, namespace):
    training = Training(namespace, "note")
    repository.commit(FILE, job("note"))
    app = application("note")
    training.runs()
    uids, pods = training.uids(), training.pods("worker")

    repository.commit(FILE, job("note", {"annotations": {"team": "a"}}))
    app.until(health="Progressing")
    namespace.until("new workers", lambda: not pods & training.pods("worker"))
    training.runs()
    assert training.uids() == uids
    assert app.out_of_sync() == set()


def test_one_setting_is_enough_for_all_applications(application, argocd, repository, namespace):
    managers = "managedFieldsManagers: [mlgen-supervisor]"
    prefix = "resource.customizations.ignoreDifferences"
    argocd.configure({f"{prefix}.{kind}": managers for kind in ("batch_Job", "apps_StatefulSet")})
    training = Training(namespace, "all")
    repository.commit(FILE, job("all"))
    app = application("all")
    app.set(ignoreDifferences=None)
    training.runs()
    app.automated(on=False)
    assert app.out_of_sync() == set()
    argocd.configure({f"{prefix}.{kind}": None for kind in ("batch_Job", "apps_StatefulSet")})
    namespace.until("a difference", lambda: "all-worker" in app.out_of_sync())
