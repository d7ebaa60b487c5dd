"""`mlgen doctor`: a cluster that meets all needs of a job, and clusters that do not."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mlgen.cli import main
from mlgen.kubernetes.versions import KubeVersion
from mlgen.live import doctor
from mlgen.live.doctor import DATA, DEFINITION, GATE, SCHEDULER, plural
from mlgen.live.kubectl import Outcome

FORBIDDEN = Outcome(1, "", "Error from server (Forbidden): no")


def node(name, **allocatable):
    return named(name, status={"allocatable": allocatable})


def version(server="v1.34.4"):
    found = {"clientVersion": {"gitVersion": "v1.34.1"}}
    if server:
        found["serverVersion"] = {"gitVersion": server}
    return Outcome(0, json.dumps(found), "")


def named(name, **fields):
    return {"metadata": {"name": name}, **fields}


@pytest.fixture
def healthy(cluster):
    """A cluster that meets all needs. Tests remove a part."""
    dns = named("dns", spec={"ports": [{"port": 53}]})
    served = [
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "priorityclasses.scheduling.k8s.io",
    ]
    served += ["podgroups.scheduling.volcano.sh", "queues.scheduling.volcano.sh"]
    cluster.answers = {
        "version": version(),
        "get services": [dns],
        "api-resources": Outcome(1, "\n".join(served), "one API does not answer"),
        "config view": Outcome(0, "team-a", ""),
        "get namespace": [named("vision")],
        "get secrets": [named("hub", data={"token": "x"}), named("registry")],
        "get persistentvolumeclaims": [named("corpus", status={"phase": "Bound"})],
        "get priorityclasses.scheduling.k8s.io": [named("high")],
        "get queues.scheduling.volcano.sh": [named("research")],
        "get leases": [named("volcano")],
        "get events -A": [],
        "get nodes": [node("a", cpu="8"), node("b", **{"nvidia.com/gpu": "8"})],
        "get resourcequotas": [],
        "apply --dry-run=server": Outcome(0, "", ""),
    }
    return cluster


def test_everything_is_there(healthy, run, snapshot):  # noqa: ARG001
    status, stdout, stderr = run("doctor", "needs.yaml")

    assert (0, "") == (status, stderr)
    assert snapshot == stdout


@pytest.mark.parametrize(
    ("served", "status", "row"),
    [
        (["podgroups.scheduling.k8s.io"], 0, "enabled in the API server; the scheduler also"),
        ([], 1, "the cluster does not serve podgroups.scheduling.k8s.io, for PodGroup mnist: --"),
    ],
)
def test_a_feature_gate_is_seen_by_what_it_serves(served, status, row, healthy, run):
    healthy.answers["api-resources"] = Outcome(0, "\n".join(["jobs.batch", *served]), "")

    found, stdout, _ = run("doctor", "--kube-version", "1.37", "gang.yaml")

    assert status == found
    assert f"feature gate GenericWorkload {row}" in " ".join(stdout.split())


def test_nothing_is_there(healthy, run, snapshot):
    healthy.answers |= {
        "version": version("v1.32.1"),
        "get services": [],
        "api-resources": Outcome(
            0, "secrets\npersistentvolumeclaims\npriorityclasses.scheduling.k8s.io", ""
        ),
        "get namespace": [],
        "get priorityclasses.scheduling.k8s.io": [],
        "get leases": [],
        "get nodes": [node("a", cpu="4", **{"nvidia.com/gpu": "0"})],
    }
    healthy.refused = {"create jobs", "patch jobs", "create roles"}

    status, stdout, _ = run("doctor", "needs.yaml")

    assert 1 == status
    assert snapshot == stdout


def test_what_cannot_be_read_is_a_note(healthy, run, snapshot):
    names = ["secrets", "persistentvolumeclaims", "priorityclasses", "leases", "events", "nodes"]
    names += ["services", "namespace", "resourcequotas", "queues.scheduling.volcano.sh"]
    healthy.answers |= dict.fromkeys([f"get {name}" for name in names], FORBIDDEN)
    healthy.answers = {key: healthy.answers[key] for key in sorted(healthy.answers)}

    stdout = run("doctor", "needs.yaml")[1]

    assert snapshot == stdout


@pytest.mark.parametrize(
    ("command", "answer", "row"),
    [
        (
            "get secrets",
            [named("hub", data={"other": ""}), named("registry")],
            "Secret hub has no key token, for rank: to replace it: kubectl create secret generic",
        ),
        (
            "get persistentvolumeclaims",
            [named("corpus", status={"phase": "Pending"})],
            "PersistentVolumeClaim corpus is Pending, for rank",
        ),
        (
            "get namespace",
            [
                {
                    "metadata": {
                        "name": "v",
                        "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
                    }
                }
            ],
            "namespace vision enforces PodSecurity restricted",
        ),
        (
            "get resourcequotas",
            [named("q", spec={}, status={"hard": {"pods": "9"}, "used": {"pods": "7"}})],
            "ok ResourceQuota q pods: 7 of 9 used",
        ),
        (
            "get resourcequotas",
            [named("q", spec={"hard": {"pods": "50"}})],
            "ok ResourceQuota q pods: 0 of 50 used",
        ),
        ("get leases", [], "warning scheduler volcano not detected"),
    ],
)
def test_one_thing_is_wrong(healthy, run, command, answer, row):
    healthy.answers[command] = answer

    stdout = run("doctor", "needs.yaml")[1]

    assert row in " ".join(stdout.split())


WEBHOOK = """\
Warning: resource jobs/bert-rank is missing the annotation last-applied
Error from server: error when creating "STDIN": admission webhook "policy" denied the request:
requests need a team label
Error from server (NotFound): roles.rbac.authorization.k8s.io "a" not found
Error from server (Forbidden): error when creating "STDIN": is forbidden: User "a" cannot create it
"""


def test_what_the_api_server_would_reject(healthy, run):
    healthy.answers["apply"] = Outcome(1, "", WEBHOOK)
    del healthy.answers["apply --dry-run=server"]

    status, stdout, _ = run("doctor", "needs.yaml")

    assert 1 == status
    (row,) = [line for line in stdout.splitlines() if "missing   dry run" in line]
    assert row.endswith('webhook "policy" denied the request: requests need a team label')


def test_a_job_that_is_there_and_has_changed(healthy, run):
    error = 'The Job "bert-rank" is invalid: spec.template: Invalid value: {}: field is immutable'
    healthy.answers["apply --dry-run=server"] = Outcome(1, "", error)

    status, stdout, _ = run("doctor", "needs.yaml")

    assert 0 == status
    assert "and immutable fields differ: mlgen diff --live needs.yaml" in stdout


@pytest.mark.parametrize(
    ("error", "hint", "expected"),
    [
        ("maximum cpu usage per Container is 4, but limit is 8", "change the resources", 1),
        (
            "minimum memory usage per Container is 256Mi, but request is 128Mi",
            "change the resources",
            1,
        ),
        ("failed quota: q: must specify limits.cpu for: main", "change the resources", 1),
        (
            "exceeded quota: q, requested: pods=1, used: pods=9, limited: pods=9",
            "wait until other pods are deleted, or request a larger quota",
            0,
        ),
        (
            'violates PodSecurity "restricted:latest": runAsNonRoot != true',
            "set security.profile: restricted",
            1,
        ),
    ],
)
def test_what_the_api_server_says_of_the_pods(error, hint, expected, healthy, run):
    start = 'Error from server (Forbidden): error when creating "STDIN": pods "bert" is forbidden'
    rejected = Outcome(1, "", f"{start}: {error}\n{start}: no bare pods\n")
    answers = iter([Outcome(0, "", ""), rejected])
    healthy.answers["apply --dry-run=server"] = lambda: next(answers)

    status, stdout, _ = run("doctor", "needs.yaml")

    rows = [line for line in stdout.splitlines() if "dry run" in line]
    assert expected == status
    assert rows[0].endswith("the API server accepts all objects")
    assert rows[1].endswith(f"{error}: {hint}")
    assert len(rows) == 2


def test_without_the_right_to_create_pods(healthy, run):
    start = 'Error from server (Forbidden): error when creating "STDIN"'
    text = f'{start}: pods is forbidden: User "a" cannot create resource "pods"'
    answers = iter([Outcome(0, "", ""), Outcome(1, "", text)])
    healthy.answers["apply --dry-run=server"] = lambda: next(answers)

    status, stdout, _ = run("doctor", "needs.yaml")

    assert 0 == status
    assert "you do not have permission to create pods, not even in a dry run" in stdout


def test_rights_that_the_role_of_the_job_grants(healthy, run):
    error = (
        'Error from server (Forbidden): error when creating "STDIN": '
        'roles.rbac.authorization.k8s.io "bert-supervisor" is forbidden: user "a" (groups=["b"]) '
        "is attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["pods"], Verbs:["watch"]}'
    )
    healthy.answers["apply --dry-run=server"] = Outcome(1, "", error)

    status, stdout, _ = run("doctor", "needs.yaml")

    assert 1 == status
    hint = "ask your administrator for these permissions, or render with --no-supervisor"
    assert f'Resources:["pods"], Verbs:["watch"]}}: {hint}\n' in stdout


def test_rights_to_look_at_a_job(healthy, run):
    healthy.refused = {"list pods"}

    text = "you cannot list pods, which mlgen status and logs require"
    assert text in run("doctor", "needs.yaml")[1]


def test_without_files_it_looks_at_the_cluster(healthy, run, snapshot):  # noqa: ARG001
    status, stdout, _ = run("doctor")

    assert 0 == status
    assert snapshot == stdout


def test_an_api_server_that_lists_no_resources(healthy, run):
    healthy.answers["api-resources"] = Outcome(1, "", "error: no")

    assert "kubectl failed: no" in run("doctor")[2]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (version(None), "missing   API server"),
        (Outcome(1, "", 'error: context "x" does not exist'), 'context "x" does not exist'),
        (version("v1.29.0"), "mlgen is tested with 1.31 to"),
    ],
)
def test_clusters_that_do_not_answer(healthy, run, answer, text):
    healthy.answers["version"] = answer

    assert text in "".join(run("doctor")[1:])


def test_without_kubectl(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    result = CliRunner().invoke(main, ["doctor"], catch_exceptions=False)

    assert 1 == result.exit_code
    assert "install it: https://kubernetes.io/docs/tasks/tools/" in result.stdout


def test_a_server_that_is_newer_is_fine():
    assert "ok" == doctor.server("v1.36.0", KubeVersion(1, 34)).level


def test_each_row_of_the_table_is_used():
    source = Path(doctor.__file__).read_text(encoding="utf-8")
    named = {each["row"] for each in DATA["rejections"]}
    named |= {row for kind in (DEFINITION, GATE, SCHEDULER) for row in (kind, f"no {kind}")}

    assert [] == [name for name in DATA["rows"] if f'"{name}"' not in source and name not in named]


def test_plurals():
    assert ["jobs", "networkpolicies", "priorityclasses"] == [
        plural(kind) for kind in ("Job", "NetworkPolicy", "PriorityClass")
    ]


@pytest.mark.parametrize(
    ("keys", "row"),
    [
        (
            ("ssh-privatekey",),
            "Secret sam-git has no known_hosts, so the host key of the Git server is not checked",
        ),
        (("ssh-privatekey", "known_hosts"), "ok Secret sam-git for main"),
        (("username", "password"), "ok Secret sam-git for main"),
    ],
)
def test_a_secret_without_the_host_keys_of_the_git_server_is_a_warning(keys, row, healthy, run):
    healthy.answers["get secrets"] = [named("sam-git", data=dict.fromkeys(keys, ""))]

    stdout = run("doctor", "git.yaml")[1]

    assert row in " ".join(stdout.split())


def test_no_name_is_an_option_of_kubectl(healthy, run):
    stdout = run("doctor", "git.yaml")[1]

    assert "missing Queue --as=admin not found" in " ".join(stdout.split())
    assert not [call for call in healthy.calls if "--as" in call]
