"""Rules about a whole job: edge cases that their examples do not show, mostly false alarms."""

import pytest

from mlgen.contradictions import contradictions
from mlgen.jobfile.model import (
    HostPorts,
    Network,
    Placement,
    Progress,
    Rdma,
    RoleSpec,
    RunPolicy,
    Scheduling,
    Slice,
    SuccessPolicy,
    Tensorboard,
    Together,
    TrainingJob,
    WaitPolicy,
)
from mlgen.topology import Helper, Hosts, Role, Success, Topology, Wait


def role(name="worker", *, spec=None, **fields):
    return Role(name, fields.pop("replicas", 1), spec=RoleSpec(name, **spec or {}), **fields)


def problems_of(job, *roles, **facts):
    return list(contradictions(Topology(job, roles, **facts)))


def paths(*roles, **fields):
    """Return the path below `spec` of each problem of a job."""
    roles = roles or (role(decides=True),)
    job = TrainingJob("ctr", "generic", {each.name: each.spec for each in roles}, **fields)
    return [".".join(map(str, problem.path[1:])) for problem in problems_of(job, *roles)]


CODES = {"retryable_exit_codes": (130,)}


def test_exit_codes_need_a_role_that_uses_them():
    rows = [
        ([role(spec=CODES, restart="ExitCode")], []),
        ([role(spec=CODES, restart="Never")], ["roles.worker.retryableExitCodes"]),
        ([role("a", spec=CODES), role("b", spec=CODES, restart="ExitCode")], []),
        (
            [role("a", spec=CODES), role("b", restart="ExitCode")],
            ["roles.a.retryableExitCodes"],
        ),
    ]

    assert [paths(*roles) for roles, _ in rows] == [wrong for _, wrong in rows]


WAITS = (Wait("ps", Hosts("ctr-ps-", 1, ".ctr"), 2222),)
HELPERS = (Helper("ssh-setup", "setup-ssh.sh", "main"),)


def test_a_deadline_is_longer_than_the_wait_for_peers():
    rows = [
        (None, None, []),
        (60, None, ["roles.worker.activeDeadlineSeconds"]),
        (61, None, []),
        (None, 60, ["runPolicy.activeDeadlineSeconds"]),
        (None, 61, []),
        (61, 1, []),
        (60, 100, ["roles.worker.activeDeadlineSeconds"]),
    ]

    for own, whole, wrong in rows:
        for waiting in [{"waits": WAITS}, {"helpers": HELPERS}]:
            worker = role(spec={"active_deadline_seconds": own}, **waiting)
            policy = RunPolicy(active_deadline_seconds=whole)

            assert paths(worker, run_policy=policy, wait=WaitPolicy(60)) == wrong


def test_limits_per_index_need_an_indexed_job_whose_pods_do_not_restart():
    rows = [
        ({"backoff_limit": 0, "active_deadline_seconds": 1}, {}, []),
        ({"max_failed_indexes": 0}, {}, ["maxFailedIndexes"]),
        ({"max_failed_indexes": 0, "backoff_limit_per_index": 0}, {}, []),
        ({"backoff_limit_per_index": 0}, {"restart": "OnFailure"}, ["backoffLimitPerIndex"]),
        ({"backoff_limit_per_index": 0}, {"restart": "ExitCode"}, []),
        ({"backoff_limit_per_index": 0}, {"index": 0}, ["backoffLimitPerIndex"]),
    ]

    assert [paths(role(spec=spec, **fields)) for spec, fields, _ in rows] == [
        [f"roles.worker.{name}" for name in wrong] for _, _, wrong in rows
    ]


@pytest.mark.parametrize(
    ("success", "policy", "converted", "count"),
    [
        (None, None, False, 1),
        (Success(indexes="0"), None, False, 0),
        (Success(indexes="0"), "First", False, 1),
        (Success(count=1, needed=True), None, False, 1),
        (None, None, True, 0),
    ],
)
def test_a_cleanup_of_nothing_has_no_effect(success, policy, converted, count):
    of = role(decides=True, replicas=2, success=success)
    fields = {"run_policy": RunPolicy("All"), "success_policy": SuccessPolicy(replicas=policy)}

    assert paths(of, converted=converted, **fields) == ["runPolicy.cleanPodPolicy"] * count


SHIPPER = {"containers": [{"name": "shipper", "image": "fluent/fluent-bit:3.1@sha256:0"}]}


def test_a_sidecar_of_merged_roles_is_reported_where_it_is_written():
    of = role("rank", decides=True, merged=("master", "worker"))
    for templates, holder in [
        (({}, {"spec": SHIPPER}), ("roles", "master")),
        (({"spec": SHIPPER}, {"spec": {"containers": []}}), ()),
    ]:
        specs = {"master": RoleSpec("master", templates=templates)}

        (problem,) = problems_of(TrainingJob("ctr", "pytorch", specs), of)

        assert problem.path == ("spec", *holder, "template", "spec", "containers", 0)


def test_a_server_may_have_containers_that_do_not_end():
    template = {"spec": SHIPPER}

    assert paths(role(serves=True, spec={"templates": (template,)})) == []


@pytest.mark.parametrize(
    ("base", "size", "count"),
    [
        (20000, 10000, 0),
        (20000, 10001, 1),
        (32767, 1, 1),
        (32768, 1, 1),
        (60999, 2, 1),
        (61000, 4536, 0),
        (32767, 2, 2),
        (61000, 4537, 1),
    ],
)
def test_the_limits_of_reserved_ports(base, size, count):
    network = Network(host=True, host_ports=HostPorts(base, size))

    assert paths(network=network) == ["network.hostPorts"] * count


def test_each_rdma_mode_has_its_own_fields_and_network():
    rows = [
        (Rdma("none"), {}, []),
        (
            Rdma("none", "r", ("n",), "i", "h"),
            {},
            [f"network.rdma.{name}" for name in ("resource", "networks", "interface", "hca")],
        ),
        (Rdma("sriov", "r", ("n",), "i", "h"), {}, []),
        (Rdma("sriov"), {}, ["network.rdma", "network.rdma"]),
        (Rdma("sriov", "r", ("n",)), {"host": True}, ["network.host"]),
        (Rdma("shared", "r"), {"host": False}, []),
        (Rdma("shared", "r", ("n",)), {}, []),
        (Rdma("shared"), {}, ["network.rdma"]),
        (Rdma("shared", "r"), {"host": True}, ["network.host"]),
        (Rdma("host", "r"), {}, []),
        (Rdma("host", "r"), {"host": True}, []),
        (Rdma("host", "r"), {"host": False}, ["network.host"]),
        (Rdma("host", "r", ("n",)), {}, ["network.rdma.networks"]),
        (Rdma("host"), {}, ["network.rdma"]),
    ]

    assert [paths(network=Network(rdma=rdma, **fields)) for rdma, fields, _ in rows] == [
        wrong for _, _, wrong in rows
    ]


def test_each_gang_scheduler_has_its_own_fields():
    rows = [
        (Scheduling("none"), []),
        (Scheduling("volcano", "q", min_member=1, min_resources={}), []),
        (Scheduling("volcano", schedule_timeout_seconds=1), ["scheduleTimeoutSeconds"]),
        (
            Scheduling("coscheduling", min_member=1, min_resources={}, schedule_timeout_seconds=1),
            [],
        ),
        (Scheduling("coscheduling", "q"), ["queue"]),
        (Scheduling("kueue", "q"), []),
        (Scheduling("kueue", "q", min_resources={}), ["minResources"]),
        (Scheduling("none", "q", min_member=1), ["queue", "minMember"]),
        (Scheduling("volcano", min_member=2), ["minMember"]),
        (Scheduling(topology=Together("zone"), spread=Placement("host")), []),
        (Scheduling(topology=Together("zone"), spread=Placement("zone")), ["spread"]),
        (Scheduling(topology=Together("zone")), []),
        (Scheduling("kubernetes", disruption="All"), []),
        (Scheduling("volcano", disruption="All"), ["disruption"]),
        (Scheduling("volcano", topology=Together(tier=0)), []),
        (Scheduling("kueue", "q", topology=Together("zone", tier=0)), ["topology.tier"]),
        (Scheduling("kai", "q", topology=Together("zone", name="zones")), []),
        (Scheduling("kai", "q", topology=Together(name="zones")), ["topology"]),
        (Scheduling("none", topology=Together("zone", name="zones")), ["topology.name"]),
        (Scheduling("kueue", "q", topology=Together(slice=Slice("rack", 2))), []),
        (Scheduling("volcano", topology=Together("zone", slice=Slice("a", 2))), ["topology.slice"]),
    ]

    assert [paths(scheduling=scheduling) for scheduling, _ in rows] == [
        [f"scheduling.{name}" for name in wrong] for _, wrong in rows
    ]


def test_the_replicas_of_a_role_fill_its_slices():
    scheduling = Scheduling("kueue", "q", topology=Together("zone", slice=Slice("rack", 4)))

    assert (
        paths(role("a"), role("b", replicas=3), role("c", replicas=8), scheduling=scheduling) == []
    )


@pytest.mark.parametrize(
    ("volumes", "log_dir", "is_valid"),
    [
        ({}, "s3://bucket/logs", True),
        ({}, "/logs", False),
        ({"l": {"mountPath": "/logs", "pvc": "c"}}, "/logs", True),
        ({"l": {"mountPath": "/logs/", "nfs": {}}}, "/logs/run", True),
        ({"l": {"mountPath": "/", "hostPath": "/d"}}, "/logs", True),
        ({"l": {"mountPath": "/logs", "emptyDir": {}}}, "/logs", False),
        ({"l": {"mountPath": "/log", "pvc": "c"}}, "/logs", False),
        ({"l": {"mountPath": "/logs/run", "pvc": "c"}}, "/logs", False),
    ],
)
def test_tensorboard_reads_from_a_shared_volume(volumes, log_dir, is_valid):
    wrong = paths(tensorboard=Tensorboard(log_dir), volumes=volumes)

    assert wrong == ([] if is_valid else ["tensorboard.logDir"])


def test_variables_that_look_like_secrets():
    rows = [
        ("HF_TOKEN", "hf_x1", True),
        ("db_password", "x", True),
        ("AWS_SECRET_ACCESS_KEY", "x", True),
        ("APIKEY", "x", True),
        ("TOKENIZER", "bert", False),
        ("MAX_TOKENS", "x", False),
        ("OPENAI_API_KEY", "EMPTY", False),
        ("TOKEN_COUNT_METHOD", "approximate", False),
        ("CREDENTIALS_SOURCE", "environment", False),
        ("TOKEN", "", False),
        ("TOKEN", "1.5", False),
        ("TOKEN", "True", False),
        ("TOKEN", "/run/token", False),
        ("TOKEN", "$(OTHER)", False),
        ("TOKEN", {"valueFrom": {}}, False),
    ]

    for name, value, is_secret in rows:
        job = TrainingJob("ctr", "generic", {})
        problems = problems_of(job, role(spec={"env": {name: value}}))

        assert [p.path for p in problems] == [("spec", "roles", "worker", "env", name)] * is_secret
        assert not any(value in p.message for p in problems)


def test_secrets_in_a_template_are_found():
    variables = [{"name": "A"}, {"name": "TOKEN", "value": "abc"}, {"name": "B", "value": "c"}]
    templates = ({}, {"spec": None}, {"spec": {"containers": [{}, {"env": variables}]}})

    assert paths(role(spec={"templates": templates})) == ["roles.worker.template"]


LONG = {"spec": {"terminationGracePeriodSeconds": 120}}
SAVES = {"code": {"mountPath": "/code", "files": {"a.py": "signal.signal(signal.SIGTERM, save)"}}}
HOOKED = {"containers": [{"name": "main", "lifecycle": {"preStop": {"exec": {"command": ["a"]}}}}]}


def test_a_shell_that_keeps_a_signal_which_the_job_prepares_for():
    rows = [
        (
            ("sh", "-c", "cd /code && torchrun train.py"),
            {"templates": (LONG,)},
            "sh does not pass SIGTERM to torchrun train.py",
        ),
        (
            ("/bin/sh", "-ec", "pip install a\npython a.py\n"),
            {"volumes": SAVES},
            "/bin/sh does not pass SIGTERM to python a.py",
        ),
        (
            ("bash", "-c", "python a.py > log"),
            {"templates": (LONG,)},
            "bash does not pass SIGTERM to python a.py",
        ),
        (("sh", "-c", "cd /code && exec torchrun train.py"), {"templates": (LONG,)}, None),
        (("sh", "-c", "trap 'kill $!' TERM; python a.py"), {"templates": (LONG,)}, None),
        (("bash", "-c", "cd /code && python a.py"), {"templates": (LONG,)}, None),
        (("python", "a.py"), {"templates": (LONG,)}, None),
        (("sh", "-c", "python a.py"), {}, None),
        (("sh", "-c", "python a.py"), {"templates": ({"spec": LONG["spec"] | HOOKED},)}, None),
        (("sh", "-c", "python a.py"), {"templates": ({"spec": {}},)}, None),
    ]

    consequence = ", so it is killed before it can save its state"
    for command, spec, message in rows:
        worker = role(spec={"command": command} | spec, decides=True)
        problems = problems_of(TrainingJob("ctr", "generic", {}), worker)

        assert [p.message for p in problems] == ([message + consequence] if message else [])


@pytest.mark.parametrize(
    ("no_proxy", "count"),
    [
        ("localhost", 1),
        ("ctr-supervisor", 0),
        (" .ads.svc.c , ctr-supervisor", 0),
        ("*", 0),
        ("", 1),
    ],
)
def test_a_proxy_with_exceptions(no_proxy, count):
    url = {"KUBEFLOW_TRAINER_SERVER_URL": "http://ctr-supervisor:8080/progress"}
    env = {"HTTPS_PROXY": "http://p", "http_proxy": "http://p", "NO_PROXY": no_proxy}
    policy = RunPolicy(progress=Progress())

    assert (
        paths(role(spec={"env": env}, env=url), run_policy=policy)
        == ["roles.worker.env.http_proxy"] * count
    )


KUEUE_LABEL, KAI_LABEL = "kueue.x-k8s.io/queue-name", "kai.scheduler/queue"
VOLCANO_QUEUE = "scheduling.volcano.sh/queue-name"
RESEARCH = Scheduling("kueue", "research")


def queued(scheduling, metadata, of_job=None, **pod):
    """The names of the queues that contradict others."""
    of = role(spec={"templates": ({"metadata": metadata, "spec": pod},)}, decides=True)
    labels = {KUEUE_LABEL: of_job} if of_job else {}
    roles = {of.spec.name: of.spec}
    job = TrainingJob("ctr", "generic", roles, labels=labels, scheduling=scheduling)
    return [problem.path[-1] for problem in problems_of(job, of) if "the queue" in problem.message]


def test_a_job_has_one_queue():
    rows = [
        (RESEARCH, {}, "research", []),
        (RESEARCH, {}, "ads", [KUEUE_LABEL]),
        (RESEARCH, {"labels": {KUEUE_LABEL: "ads"}}, None, [KUEUE_LABEL]),
        (RESEARCH, {"labels": {KAI_LABEL: "ads"}}, None, [KAI_LABEL]),
        (RESEARCH, {"labels": {KAI_LABEL: "research"}}, None, []),
        (RESEARCH, {"annotations": {VOLCANO_QUEUE: "ads"}}, None, [VOLCANO_QUEUE]),
        (Scheduling(), {"labels": {KAI_LABEL: "ads"}}, None, []),
        (Scheduling(), {"labels": {KAI_LABEL: "ads"}}, "research", [KAI_LABEL]),
        (Scheduling("volcano"), {}, "research", []),
    ]

    assert [queued(scheduling, metadata, of_job) for scheduling, metadata, of_job, _ in rows] == [
        wrong for _, _, _, wrong in rows
    ]


def test_a_second_scheduler_may_have_its_own_queue():
    metadata = {"labels": {KAI_LABEL: "gpus", KUEUE_LABEL: "ads"}}
    with_kai = Scheduling("kueue", "research", scheduler_name="kai-scheduler")

    assert queued(with_kai, metadata) == [KUEUE_LABEL]
    assert queued(RESEARCH, metadata, schedulerName="kai-scheduler") == [KUEUE_LABEL]
