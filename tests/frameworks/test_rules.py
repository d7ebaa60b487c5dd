"""The rules of every framework: errors and warnings, with location and fix."""

from typing import get_args

import pytest
from support import ROOT, job_file

import mlgen
from mlgen.frameworks import _lifecycle, _rules
from mlgen.jobfile.model import (
    HostPorts,
    Network,
    Placement,
    Progress,
    Rdma,
    RoleSpec,
    RunPolicy,
    Scheduling,
    Security,
    ServerPolicy,
    Slice,
    SuccessPolicy,
    Tensorboard,
    Together,
    TrainingJob,
    WaitPolicy,
)
from mlgen.problems import Code
from mlgen.resources import table
from mlgen.topology import RESERVED, Helper, Hosts, Role, Success, Topology, Wait

WAITS = (Wait("ps", Hosts("ctr-ps-", 1, ".ctr"), 2222),)
HELPERS = (Helper("ssh-setup", "setup-ssh.sh", "main"),)


TEXTS = table("frameworks/problems")


def test_a_row_of_problems_has_its_fields_and_is_used():
    code = "".join(path.read_text() for path in (ROOT / "mlgen/frameworks").glob("*.py"))

    assert [] == [rule for rule in TEXTS if f'"{rule}"' not in code]
    assert [] == [
        rule
        for rule, row in TEXTS.items()
        if not {"message"} <= row.keys() <= {"path", "message", "hint", "code", "warning"}
        or row.get("code", "combination") not in get_args(Code)
    ]


def role(name="worker", *, spec=None, **fields):
    return Role(name, fields.pop("replicas", 1), spec=RoleSpec(name, **spec or {}), **fields)


def reported(*roles, supervised=False, **fields):
    """Return the path below `spec` and the message of each problem."""
    job = TrainingJob("ctr", "generic", {}, **fields)
    problems = _rules.contradictions(Topology(job, roles or (role(decides=True),), supervised))
    assert all(p.code in ("combination", "no-effect", "secret-in-env") and p.hint for p in problems)
    return [(".".join(p.path[1:]), p.message) for p in problems]


def paths(*roles, **fields):
    return [path for path, _ in reported(*roles, **fields)]


def warnings(topology):
    return [p.warning for p in _rules.contradictions(topology)]


def test_a_plain_job_has_no_problems():
    assert reported() == []


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


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("active_deadline_seconds", "activeDeadlineSeconds"),
        ("backoff_limit", "backoffLimit"),
        ("backoff_limit_per_index", "backoffLimitPerIndex"),
        ("max_failed_indexes", "maxFailedIndexes"),
    ],
)
def test_a_statefulset_has_no_limits(field, name):
    message = f"worker is rendered as a StatefulSet, which has no {name}"

    assert reported(role(spec={field: 0}, serves=True)) == [(f"roles.worker.{name}", message)]


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


def test_a_role_that_waits_for_nobody_can_have_any_deadline():
    assert paths(role(spec={"active_deadline_seconds": 1})) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"waits": WAITS},
        {"helpers": HELPERS},
        {"spec": {"volumes": {"code": {"git": {}, "mountPath": "/code"}}}},
    ],
)
def test_a_limit_of_the_wait_needs_somebody_who_waits(fields):
    job = {"wait": WaitPolicy(60)}

    assert paths(role(**fields), **job) == []
    assert paths(role(), **job) == ["wait.timeoutSeconds"]


def test_a_job_with_another_manager_is_an_error():
    message = "another controller manages a Job with managedBy, so Kubernetes does not run it"

    assert reported(run_policy=RunPolicy(managed_by="a.b/c")) == [("runPolicy.managedBy", message)]


SERVER = role("ps", serves=True)
ENDLESS_JOB = role("ps", endless=True)
WORKERS = (role(decides=True, index=0), role(index=1), role(index=2))


@pytest.mark.parametrize(
    ("policy", "supervised", "roles", "remaining"),
    [
        ("Running", False, (*WORKERS, SERVER), "worker, ps"),
        ("All", False, (SERVER,), "ps"),
        ("None", False, (SERVER,), None),
        ("All", True, (SERVER,), None),
    ],
)
def test_pods_that_nothing_stops_are_a_warning_with_their_roles(
    policy, supervised, roles, remaining
):
    problems = reported(*roles, run_policy=RunPolicy(policy), supervised=supervised)

    message = f"without the supervisor, pods keep running after training ends: {remaining}"
    assert problems == ([("runPolicy.cleanPodPolicy", message)] if remaining else [])


SERVERS_RUN = "Kubernetes deletes only finished Jobs; the pods of ps keep running"


@pytest.mark.parametrize(
    ("ttl", "policy", "supervised", "roles", "messages"),
    [
        (None, "None", False, (SERVER,), []),
        (0, "Running", True, (SERVER,), []),
        (0, "None", False, (SERVER,), [SERVERS_RUN]),
        (0, "None", False, (ENDLESS_JOB,), [SERVERS_RUN]),
        (0, "None", False, WORKERS, []),
    ],
)
def test_without_a_supervisor_a_ttl_deletes_finished_jobs_only(
    ttl, policy, supervised, roles, messages
):
    run_policy = RunPolicy(policy, ttl_seconds_after_finished=ttl)

    assert reported(*roles, run_policy=run_policy, supervised=supervised) == [
        ("runPolicy.ttlSecondsAfterFinished", message) for message in messages
    ]


NODES = {"ipBlock": {"cidr": "10.0.0.0/16"}}


@pytest.mark.parametrize(
    ("policy", "host", "peers", "words"),
    [
        ({}, False, (), ["has no effect"]),
        ({"metrics_port": 9090}, False, (), ["so Prometheus cannot read"]),
        ({"metrics_port": 9090}, False, ({"podSelector": {}},), []),
        ({"progress": Progress()}, False, (), []),
        ({"progress": Progress()}, True, ({"podSelector": {}},), ["may block their reports"]),
        ({"progress": Progress()}, True, (NODES,), []),
        ({"metrics_port": 9090}, True, (NODES,), []),
        ({"progress": Progress()}, False, ({**NODES, "podSelector": {}},), ["next to a selector"]),
    ],
)
def test_a_network_policy_that_blocks_clients_or_has_no_effect(policy, host, peers, words):
    run_policy = RunPolicy(**policy, network_policy=ServerPolicy(peers))
    network = Network(host=host)
    job = TrainingJob("ctr", "generic", {}, run_policy=run_policy, network=network)
    topology = Topology(job, (role(decides=True),), supervised=True)

    found = [*_lifecycle.server_policy(topology)]

    assert [word in problem.message for word, problem in zip(words, found, strict=True)] == [
        True for _ in words
    ]


def test_a_cleanup_has_no_effect_on_an_explicit_success_policy():
    of = role(decides=True, replicas=2, success=Success(indexes="0"))
    explicit = SuccessPolicy(replicas="First")
    job = TrainingJob("c", "generic", {}, run_policy=RunPolicy("All"), success_policy=explicit)

    assert [p.code for p in _rules.contradictions(Topology(job, (of,)))] == ["no-effect"]


@pytest.mark.parametrize(
    ("policy", "success", "converted", "reports"),
    [
        ("Running", None, False, False),
        ("All", None, False, True),
        ("None", None, False, False),
        ("All", Success(indexes="0"), False, False),
        ("All", Success(count=1, needed=True), False, True),
        ("All", None, True, False),
    ],
)
def test_a_cleanup_of_nothing_has_no_effect(policy, success, converted, reports):
    roles = (role(decides=True, replicas=2, success=success),)
    job = TrainingJob("ctr", "generic", {}, run_policy=RunPolicy(policy), converted=converted)
    message = f"{policy} has no effect: no pod keeps running after training ends"

    assert [(p.path, p.message, p.code) for p in _rules.contradictions(Topology(job, roles))] == [
        (("spec", "runPolicy", "cleanPodPolicy"), message, "no-effect")
    ] * reports


@pytest.mark.parametrize(
    ("roles", "policy", "command"),
    [
        ((SERVER,), {}, "kubectl delete statefulsets -l mlgen.dev/job=ctr"),
        (
            (SERVER, ENDLESS_JOB),
            {},
            "kubectl delete statefulsets,jobs -l 'mlgen.dev/job=ctr,mlgen.dev/decides!=true'",
        ),
        (WORKERS, {}, ""),
        ((SERVER,), {"clean_pod_policy": "Running"}, ""),
        ((SERVER,), {"ttl_seconds_after_finished": 5}, ""),
    ],
)
def test_the_command_that_deletes_what_keeps_running(roles, policy, command):
    job = TrainingJob("ctr", "generic", {}, run_policy=RunPolicy(**policy))

    assert _lifecycle.cleanup(Topology(job, roles, supervised=True)) == command


@pytest.mark.parametrize(("policy", "keeps"), [("None", True), ("Running", False)])
def test_a_workflow_cleans_up(policy, keeps):
    run_policy = RunPolicy(policy)
    job = TrainingJob("ctr", "generic", {}, run_policy=run_policy, workflow=True)

    assert _rules.contradictions(Topology(job, (SERVER,))) == []
    assert bool(_lifecycle.cleanup(Topology(job, (SERVER,)))) is keeps


FLUENT_BIT = {"name": "shipper", "image": "fluent/fluent-bit:3.1@sha256:0"}


@pytest.mark.parametrize(
    ("container", "serves", "message"),
    [
        (FLUENT_BIT, False, "the container shipper does not exit by itself"),
        (FLUENT_BIT, True, None),
        ({"name": "metrics"}, False, "the pod completes only after the container metrics"),
        ({"name": "upload"}, False, None),
        ({"name": "main"}, False, None),
    ],
)
def test_a_container_that_keeps_a_job_from_completing(container, serves, message):
    template = {"spec": {"containers": [container]}}
    of = role(serves=serves, decides=not serves, spec={"templates": (template,)})

    job = TrainingJob("ctr", "generic", {"worker": of.spec})
    problems = _rules.contradictions(Topology(job, (of,)))

    assert [(p.code, p.path[-1]) for p in problems] == [("never-ends", 0)] * bool(message)
    assert all(p.message.startswith(message) for p in problems)


def test_a_sidecar_of_merged_roles_is_reported_where_it_is_written():
    template = {"spec": {"containers": [FLUENT_BIT]}}
    merged = role("rank", decides=True)
    specs = {"master": RoleSpec("master", templates=(template,)), "worker": RoleSpec("worker")}

    (problem,) = _rules.contradictions(Topology(TrainingJob("ctr", "pytorch", specs), (merged,)))

    path = ("template", "spec", "containers", 0)
    assert problem.path == ("spec", "roles", "master", *path)

    both = RoleSpec("master", templates=(template, {"spec": {"containers": []}}))
    (problem,) = _rules.contradictions(
        Topology(TrainingJob("ctr", "pytorch", {"master": both}), (merged,))
    )

    assert problem.path == ("spec", *path)


def test_problems_that_do_not_prevent_training_are_warnings():
    policy = RunPolicy("All", ttl_seconds_after_finished=0)
    job = TrainingJob("ctr", "generic", {}, run_policy=policy)

    assert warnings(Topology(job, (SERVER,))) == [True, True]
    assert warnings(Topology(job, (SERVER,), supervised=True)) == []


def test_a_cluster_domain_needs_a_namespace():
    rows = [
        (None, None, []),
        ("c.local", "ads", []),
        ("c.local", None, ["network.clusterDomain"]),
        ("svc.c.local", "ads", ["network.clusterDomain"]),
    ]

    assert [
        paths(network=Network(cluster_domain=domain), namespace=namespace)
        for domain, namespace, _ in rows
    ] == [wrong for _, _, wrong in rows]


LINUX = "32768 to 60999, used for outgoing connections of Linux"
SERVICES = "30000 to 32767, used for NodePorts of Services"


@pytest.mark.parametrize(
    ("ports", "messages"),
    [
        (HostPorts(20000, 10000), []),
        (HostPorts(20000, 10001), [f"the range 20000 to 30000 overlaps with {SERVICES}"]),
        (HostPorts(32767, 1), [f"the range 32767 to 32767 overlaps with {SERVICES}"]),
        (HostPorts(32768, 1), [f"the range 32768 to 32768 overlaps with {LINUX}"]),
        (HostPorts(60999, 2), [f"the range 60999 to 61000 overlaps with {LINUX}"]),
        (HostPorts(61000, 4536), []),
        (
            HostPorts(32767, 2),
            [f"the range 32767 to 32768 overlaps with {other}" for other in (SERVICES, LINUX)],
        ),
        (HostPorts(61000, 4537), ["the range 61000 to 65536 exceeds the highest port, 65535"]),
        (HostPorts(30000, 100, allow_reserved=True), []),
    ],
)
def test_ports_on_the_nodes_are_free(ports, messages):
    problems = reported(network=Network(host=True, host_ports=ports))

    assert problems == [("network.hostPorts", message) for message in messages]


def test_ports_on_the_nodes_need_host_networking():
    message = "hostPorts has no effect without host networking"

    assert reported(network=Network(host_ports=HostPorts(1, 1))) == [("network.hostPorts", message)]


@pytest.mark.parametrize(
    ("mesh", "host", "wrong"),
    [("native", True, ["network.mesh"]), ("native", False, []), ("none", True, [])],
)
def test_a_mesh_excludes_host_networking(mesh, host, wrong):
    assert paths(network=Network(mesh=mesh, host=host)) == wrong


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


@pytest.mark.parametrize(("profile", "wrong"), [("privileged", []), ("baseline", ["network.rdma"])])
def test_rdma_hardware_of_the_node_needs_privileged_pods(profile, wrong):
    assert paths(network=Network(rdma=Rdma("host")), security=Security(profile)) == wrong


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


@pytest.mark.parametrize("gang", ["kueue", "kai"])
def test_some_gang_schedulers_need_a_queue(gang):
    assert reported(scheduling=Scheduling(gang)) == [("scheduling", f"gang: {gang} requires queue")]


def test_the_replicas_of_a_role_fill_its_slices():
    placement = Together("zone", slice=Slice("rack", 4))
    scheduling = Scheduling("kueue", "q", topology=placement)
    fitting = (role("a"), role("b", replicas=3), role("c", replicas=8))

    assert paths(*fitting, scheduling=scheduling) == []
    assert reported(role("a", replicas=6), scheduling=scheduling) == [
        ("scheduling.topology.slice.size", "a has 6 replicas, which is not a multiple of 4")
    ]


@pytest.mark.parametrize(("gang", "count"), [("kueue", 1), ("none", 0)])
def test_kueue_alone_decides_when_a_job_starts(gang, count):
    scheduling = Scheduling(gang, "q" if count else None)
    job = TrainingJob(
        "ctr", "generic", {}, run_policy=RunPolicy(suspend=True), scheduling=scheduling
    )

    problems = _rules.contradictions(Topology(job, (role(decides=True),)))

    assert ["no-effect"] * count == [problem.code for problem in problems]


def test_a_gang_has_at_most_as_many_members_as_there_are_pods():
    roles = (role("a", replicas=2), role("b", replicas=3))

    assert paths(*roles, scheduling=Scheduling("volcano", min_member=5)) == []
    assert reported(*roles, scheduling=Scheduling("volcano", min_member=6)) == [
        ("scheduling.minMember", "minMember: 6 exceeds the number of pods, 5")
    ]


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


def test_two_volumes_at_one_path():
    volumes = {"a": {"mountPath": "/data"}, "b": {"mountPath": "/data/"}, "c": {"mountPath": "/c"}}

    assert reported(role(spec={"volumes": volumes})) == [
        ("roles.worker.volumes.b", "a and b are both mounted at /data/")
    ]


def files(content, name="settings"):
    return {"volumes": {name: {"mountPath": f"/{name}", "files": content}}}


def test_files_of_one_volume_name_are_the_same_in_all_roles():
    same = [role(name, spec=files({"a": "1"})) for name in ("x", "y")]

    assert reported(*same) == []
    assert reported(*same, role("z", spec=files({"a": "2"}))) == [
        ("roles.z.volumes.settings", "the volume settings has different files in the role x")
    ]


@pytest.mark.parametrize("name", RESERVED)
def test_the_names_of_mlgens_own_objects_are_reserved(name):
    objects_of_mlgen = f"the name ctr-{name} is reserved for mlgen's own objects"

    assert reported(role(spec=files({}, name))) == []
    assert reported(role(name)) == [(f"roles.{name}", objects_of_mlgen)]


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
        problems = _rules.contradictions(Topology(job, (role(spec={"env": {name: value}}),)))

        assert [p.path for p in problems] == [("spec", "roles", "worker", "env", name)] * is_secret
        assert all(p.warning and p.code == "secret-in-env" for p in problems)
        assert not any(value in p.message for p in problems)


def test_secrets_in_a_template_are_found():
    variables = [{"name": "A"}, {"name": "TOKEN", "value": "abc"}, {"name": "B", "value": "c"}]
    templates = ({}, {"spec": None}, {"spec": {"containers": [{}, {"env": variables}]}})

    assert paths(role(spec={"templates": templates})) == ["roles.worker.template"]


def test_a_problem_of_several_replicas_is_reported_once():
    replicas = [role(spec={"backoff_limit_per_index": 1}, index=i) for i in range(3)]

    assert len(reported(*replicas)) == 1


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
        (("sh", "-c", "python a.py"), {"templates": ({"spec": {}},), "volumes": {"a": {}}}, None),
    ]

    for command, spec, message in rows:
        job = TrainingJob("ctr", "generic", {})
        worker = role(spec={"command": command} | spec, decides=True)
        (*problems,) = _lifecycle.supervision_problems(job, [worker])

        consequence = ", so it is killed before it can save its state"
        assert [p.message for p in problems] == ([message + consequence] if message else [])
        assert all(
            problem.warning and problem.hint.startswith("write exec") for problem in problems
        )


@pytest.mark.parametrize(("failures", "problems"), [(0, []), (3, ["backoffResetSeconds"])])
def test_a_short_time_of_running_contradicts_only_a_limit_of_start_failures(failures, problems):
    policy = {"restartScope": "All", "backoffResetSeconds": 30}
    document = job_file(runPolicy=policy | {"giveUpAfter": {"startFailures": failures}})
    document["spec"]["command"] = ["run"]

    assert [problem.path[-1] for problem in found_in(document)] == problems


def found_in(document):
    try:
        return mlgen.validate(document).warnings
    except mlgen.MlgenError as error:
        return error.problems


KUEUE_LABEL, KAI_LABEL = "kueue.x-k8s.io/queue-name", "kai.scheduler/queue"
VOLCANO_QUEUE = "scheduling.volcano.sh/queue-name"
RESEARCH = Scheduling("kueue", "research")


def queued(scheduling, metadata, of_job=None, **pod):
    """The names of the queues that contradict others."""
    of = role(spec={"templates": ({"metadata": metadata, "spec": pod},)}, decides=True)
    labels = {KUEUE_LABEL: of_job} if of_job else {}
    roles = {of.spec.name: of.spec}
    job = TrainingJob("ctr", "generic", roles, labels=labels, scheduling=scheduling)
    problems = _rules.contradictions(Topology(job, (of,)))
    return [problem.path[-1] for problem in problems if "the queue" in problem.message]


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
