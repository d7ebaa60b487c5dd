"""`mlgen doctor`: a cluster that has all that a job needs, and one that lacks it."""

import json
import platform
import subprocess

import pytest

from mlgen.kubernetes.versions import KubeVersion
from mlgen.live.doctor import site
from mlgen.live.doctor.images import registry
from mlgen.live.doctor.rights import plural
from mlgen.live.kubectl import Outcome

FORBIDDEN = Outcome(1, "", "Error from server (Forbidden): no")

LARGE = {"cpu": "32", "memory": "128Gi", "nvidia.com/gpu": "8", "pods": "110"}


def version(server="v1.34.4"):
    found = {"clientVersion": {"gitVersion": "v1.34.1"}}
    if server:
        found["serverVersion"] = {"gitVersion": server}
    return Outcome(0, json.dumps(found), "")


def named(name, **fields):
    return {"metadata": {"name": name}, **fields}


def node(name, allocatable, *, labels=None, taints=(), ready="True", **spec):
    status = {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": ready}]}
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"taints": list(taints), **spec},
        "status": status,
    }


def gpu_node(name, allocatable=None):
    taints = [
        {"key": "nvidia.com/gpu", "effect": "NoSchedule"},
        {"key": "team", "value": "nlp", "effect": "NoSchedule"},
        {"key": "slow", "effect": "PreferNoSchedule"},
    ]
    return node(name, allocatable or LARGE, labels={"pool": "gpu"}, taints=taints)


def busy(name, phase="Running", **requests):
    return {
        "spec": {"nodeName": name, "containers": [{"resources": {"requests": requests}}]},
        "status": {"phase": phase},
    }


@pytest.fixture
def healthy(cluster):
    """A cluster that has everything; a test takes something away."""
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
        "get nodes": [gpu_node("a"), gpu_node("b")],
        "get pods -A": [busy("a", cpu="1"), busy("b", "Succeeded", cpu="32")],
        "get resourcequotas": [],
        "get limitranges": [],
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
        (["podgroups.scheduling.k8s.io"], 0, "on in the API server; the scheduler must have it"),
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
        "get nodes": [node("a", {"cpu": "4", "memory": "16Gi", "pods": "110"})],
        "get pods -A": [],
    }
    healthy.refused = {"create jobs", "patch jobs", "create roles"}

    status, stdout, _ = run("doctor", "needs.yaml")

    assert 1 == status
    assert snapshot == stdout


def test_what_cannot_be_read_is_a_note(healthy, run, snapshot):
    names = ["secrets", "persistentvolumeclaims", "priorityclasses", "leases", "events", "nodes"]
    names += ["services", "namespace", "resourcequotas", "queues.scheduling.volcano.sh"]
    healthy.answers |= dict.fromkeys([f"get {name}" for name in names], FORBIDDEN)
    healthy.answers["get limitranges"] = FORBIDDEN
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
        ("get pods -A", [busy("a", cpu="31")], "room 2 of 4 pods fit on the nodes now"),
        (
            "get pods -A",
            [busy("a", **{"nvidia.com/gpu": "8"})],
            "nvidia.com/gpu 16 needed, 16 in the cluster, 8 free: the job waits",
        ),
        ("get pods -A", FORBIDDEN, "free capacity pods of all namespaces cannot be listed"),
        (
            "get nodes",
            [node("a", LARGE), node("b", LARGE)],
            "pods of rank none of 2 nodes has the labels and taints that the pod needs",
        ),
        (
            "get nodes",
            [gpu_node("a"), node("b", LARGE, unschedulable=True), node("c", LARGE, ready="False")],
            "nvidia.com/gpu 16 needed, 8 in the cluster, 8 free: add nodes",
        ),
        (
            "get nodes",
            [gpu_node("a", LARGE | {"cpu": "4"})] * 2,
            "pods of rank no node is large enough; on a it needs cpu 8 of 4",
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
            "PodSecurity baseline the namespace enforces restricted: spec.",
        ),
        (
            "get resourcequotas",
            [
                named(
                    "q",
                    spec={},
                    status={"hard": {"requests.nvidia.com/gpu": "8", "count/jobs.batch": "9"}},
                )
            ],
            "ResourceQuota q requests.nvidia.com/gpu: 16 needed, 8 of 8 left: ask for a larger",
        ),
        (
            "get resourcequotas",
            [named("q", spec={}, status={"hard": {"pods": "9"}, "used": {"pods": "7"}})],
            "ResourceQuota q pods: 5 needed, 2 of 9 left: pods wait until others are deleted",
        ),
        ("get resourcequotas", [named("q", spec={"hard": {"pods": "50"}})], "ok ResourceQuota q"),
        (
            "get resourcequotas",
            [named("q", spec={"scopes": ["BestEffort"]})],
            "ResourceQuota q has scopes, so it is not compared",
        ),
        (
            "get limitranges",
            [named("l", spec={"limits": [{"type": "Container", "max": {"cpu": "4"}}]})],
            "LimitRange l Job bert-rank: main may use 8 of cpu, at most 4: change the resources",
        ),
        (
            "get limitranges",
            [named("l", spec={"limits": [{"type": "Container", "min": {"memory": "256Mi"}}]})],
            "LimitRange l Job bert-supervisor: supervisor requests 128Mi of memory, at least 256Mi",
        ),
        ("get limitranges", [named("l", spec={"limits": []})], "ok LimitRange l"),
        ("get leases", [], "warning scheduler volcano was not seen"),
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
Error from server (NotFound): error when creating "STDIN": roles.rbac.authorization.k8s.io "a" no
Error from server (Forbidden): error when creating "STDIN": is forbidden: User "a" cannot create it
"""


def test_what_the_api_server_would_reject(healthy, run):
    healthy.answers["apply"] = Outcome(1, "", WEBHOOK)
    del healthy.answers["apply --dry-run=server"]

    status, stdout, _ = run("doctor", "needs.yaml")

    assert 1 == status
    (row,) = [line for line in stdout.splitlines() if "dry run" in line]
    assert row.endswith('webhook "policy" denied the request: requests need a team label')


def test_a_job_that_is_there_and_has_changed(healthy, run):
    error = 'The Job "bert-rank" is invalid: spec.template: Invalid value: {}: field is immutable'
    healthy.answers["apply --dry-run=server"] = Outcome(1, "", error)

    status, stdout, _ = run("doctor", "needs.yaml")

    assert 0 == status
    assert "with fields that cannot change: mlgen diff --live needs.yaml" in stdout


def test_nodes_that_an_autoscaler_may_add(healthy, run):
    served = Outcome(0, "nodepools.karpenter.sh\n", "")
    healthy.answers |= {"api-resources": served, "get nodes": []}

    stdout = " ".join(run("doctor", "needs.yaml")[1].split())

    assert "warning nvidia.com/gpu 16 needed, 0 in the cluster, 0 free: the job waits" in stdout
    assert "warning pods of rank none of 0 nodes" in stdout


def test_a_quota_of_what_containers_do_not_set(healthy, run):
    hard = {"limits.cpu": "100", "requests.cpu": "100"}
    healthy.answers["get resourcequotas"] = [named("q", spec={"hard": hard})]
    words = ("doctor", "../../../fixtures/tensorflow-ps.yaml")

    text = "limits.cpu is limited, and Job mnist-chief does not set it: its pods are rejected"
    assert text in run(*words)[1]
    limits = [{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}]
    healthy.answers["get limitranges"] = [named("l", spec={"limits": limits})]
    assert text not in run(*words)[1]


def test_rights_that_the_role_of_the_job_grants(healthy, run):
    healthy.refused = {"escalate roles", "watch pods"}

    status, stdout, _ = run("doctor", "needs.yaml")

    assert 1 == status
    assert "the job's Role grants watch on pods: you cannot grant what you do not have" in stdout
    healthy.refused = {"escalate roles", "get pods"} - {"get pods"}
    assert "you have all that the job's Role grants" in run("doctor", "needs.yaml")[1]


def test_rights_to_look_at_a_job(healthy, run):
    healthy.refused = {"list pods"}

    assert "you may not list pods, which status and logs do" in run("doctor", "needs.yaml")[1]


def test_without_files_it_looks_at_this_machine(healthy, run, monkeypatch, tmp_path, snapshot):  # noqa: ARG001
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(platform, "python_version", lambda: "3.11.7")
    for name, text in (("helm", "echo v3.18.4+gabc"), ("argocd", "exit 1")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)

    status, stdout, _ = run("doctor")

    assert 0 == status
    assert snapshot == stdout


def test_a_program_that_hangs(monkeypatch):
    def hang(*_, **__):
        raise subprocess.TimeoutExpired("helm", 1)

    monkeypatch.setattr(site.shutil, "which", lambda name: name)
    monkeypatch.setattr(site.subprocess, "run", hang)

    assert "not installed" in next(x for x in site.programs("1") if x.subject == "helm").text


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


def test_without_kubectl(run, monkeypatch, tmp_path):
    from mlgen.live.doctor import Kubectl, KubectlError

    def outcome(*_, **__):
        raise KubectlError("kubectl cannot be run: No such file or directory", "missing")

    monkeypatch.setattr(Kubectl, "outcome", outcome)
    monkeypatch.setenv("PATH", str(tmp_path))

    status, stdout, _ = run("doctor")

    assert 1 == status
    assert "install it: https://kubernetes.io/docs/tasks/tools/" in stdout


def test_a_server_that_is_newer_is_fine():
    assert "ok" == site.server("v1.36.0", KubeVersion(1, 34)).level


@pytest.mark.parametrize(
    ("image", "host"),
    [
        ("busybox", "docker.io"),
        ("example/bert:2", "docker.io"),
        ("nvcr.io/nvidia/pytorch:25.01-py3", "nvcr.io"),
        ("localhost/a", "localhost"),
        ("registry:5000/a@sha256:0", "registry:5000"),
    ],
)
def test_the_registry_of_an_image(image, host):
    assert host == registry(image)


def test_plurals():
    assert ["jobs", "networkpolicies", "priorityclasses"] == [
        plural(kind) for kind in ("Job", "NetworkPolicy", "PriorityClass")
    ]


@pytest.mark.parametrize(
    ("keys", "row"),
    [
        (
            ("ssh-privatekey",),
            "Secret sam-git has no known_hosts, so the host key of the Git server",
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
