"""The planner: addresses, ports, waits, the deciding role, and overrides in the job file."""

from dataclasses import replace

import pytest

from mlgen import MlgenError
from mlgen.frameworks import _capacity
from mlgen.frameworks._planner import Planner, config
from mlgen.jobfile.model import (
    GiveUpAfter,
    HostPorts,
    Network,
    Progress,
    RoleSpec,
    RunPolicy,
    SuccessPolicy,
    TrainingJob,
)
from mlgen.topology import INDEX, Success, Wait

PS, WORKER = RoleSpec("ps"), RoleSpec("worker", replicas=3)
HOST = Network(host=True)
FIRST, ANY = Success(indexes="0"), Success(count=1)


def planner(*specs, ports=(("ps", 2222), ("worker", 3333)), more_ports=None, **fields):
    roles = {spec.name: spec for spec in specs or (PS, WORKER)}
    job = TrainingJob("ctr", "generic", roles, **fields)
    return Planner(job, dict(ports), more_ports or {})


def reported(plan):
    """Return the problems of a planner without `spec.`: path, message and hint."""
    return [(".".join(p.path[1:]), p.message, p.hint) for p in plan.collector.problems]


def test_hosts_are_the_names_of_all_replicas():
    rows = [
        ({}, ["ctr-worker-0.ctr", "ctr-worker-1.ctr", "ctr-worker-2.ctr"]),
        (
            {"namespace": "ads", "network": Network(cluster_domain="cluster.local")},
            [f"ctr-worker-{i}.ctr.ads.svc.cluster.local" for i in range(3)],
        ),
        ({"network": HOST}, ["ctr-worker-0", "ctr-worker-1", "ctr-worker-2"]),
        (
            {"namespace": "ads", "network": Network(cluster_domain="c.local", host=True)},
            [f"ctr-worker-{i}.ads.svc.c.local" for i in range(3)],
        ),
    ]

    assert [list(planner(**fields).hosts(WORKER)) for fields, _ in rows] == [
        hosts for _, hosts in rows
    ]


def test_hosts_can_be_a_part_of_the_replicas():
    plan = planner()

    assert list(plan.hosts(WORKER, 2, 1)) == ["ctr-worker-1.ctr", "ctr-worker-2.ctr"]
    assert list(plan.hosts(WORKER, 0)) == []
    assert plan.first_host(WORKER) == "ctr-worker-0.ctr"


def test_a_role_without_a_port_keeps_its_subdomain_with_host_networking():
    plan = planner(ports=(), network=HOST)

    assert plan.first_host(WORKER) == "ctr-worker-0.ctr"


def test_the_port_of_the_job_file_overrides_that_of_the_framework():
    assert planner().peer_port(WORKER) == 3333
    assert planner().peer_port(RoleSpec("worker", port=9)) == 9
    assert planner().peer_port(RoleSpec("other")) is None
    assert planner().port(RoleSpec("worker", port=9), 1) == 9


def test_every_replica_sees_the_same_ports_without_host_networking():
    plan = planner(more_ports={"worker": {"ui": 80}})

    assert plan.port(WORKER, 1, ("worker", 1)) == 3333
    assert plan.port(WORKER, 1, ("worker", 1), "ui") == 80
    assert plan.own_port(WORKER, None) == 3333
    with pytest.raises(KeyError):
        plan.port(WORKER, name="none")


def test_with_host_networking_only_a_replica_itself_sees_its_port_on_the_node():
    plan = planner(network=HOST, more_ports={"worker": {"ui": 80}})
    own = plan.host_ports.port("worker", 1, "peers")

    assert own != 3333
    assert plan.port(WORKER, 1, ("worker", 1)) == own
    assert plan.own_port(WORKER, ("worker", 1)) == own
    assert plan.port(WORKER, 1, ("worker", 1), "ui") == plan.host_ports.port("worker", 1, "ui")
    assert plan.port(WORKER, 1, ("worker", 0)) == 3333
    assert plan.port(WORKER, 1, ("ps", 1)) == 3333
    assert plan.port(WORKER, 1, None) == 3333


def test_addresses_are_those_that_the_viewer_sees():
    plan = planner(network=HOST)
    own = plan.host_ports.port("worker", 1, "peers")

    assert planner().addresses(PS) == ["ctr-ps-0.ctr:2222"]
    assert plan.addresses(WORKER, ("worker", 1)) == [
        "ctr-worker-0:3333",
        f"ctr-worker-1:{own}",
        "ctr-worker-2:3333",
    ]


def test_the_own_address_has_the_variable_of_the_index():
    plan = planner(network=HOST)
    own = plan.host_ports.port("worker", 2, "peers")

    assert planner().own_address(WORKER, None) == f"ctr-worker-{INDEX}.ctr:3333"
    assert plan.own_address(WORKER, ("worker", 2)) == f"ctr-worker-{INDEX}:{own}"


@pytest.mark.parametrize(
    ("fields", "until", "port"),
    [({}, None, None), ({}, "port", 3333), ({"network": HOST}, None, 3333)],
)
def test_a_wait_is_for_names_or_with_host_networking_for_ports(fields, until, port):
    plan = planner(**fields)

    assert plan.wait(WORKER, until=until) == Wait("worker", plan.hosts(WORKER), port)
    assert plan.wait(WORKER, until="name").port is None
    assert plan.wait(WORKER, until=until, count=1) == Wait("worker", plan.hosts(WORKER, 1), port)


def test_roles_that_a_framework_requires():
    plan = planner()
    plan.require("worker", "chief", "ps", "evaluator")

    assert [p.code for p in plan.collector.problems] == ["missing-role"] * 2
    assert reported(plan) == [
        ("roles", "generic requires the role chief", "add chief: {}"),
        ("roles", "generic requires the role evaluator", "add evaluator: {}"),
    ]


def test_roles_of_a_single_replica():
    plan = planner()
    plan.single("ps", "worker", "chief")

    message = "a job can have only one worker"
    assert reported(plan) == [("roles.worker.replicas", message, "remove replicas")]


@pytest.mark.parametrize(
    ("minimum", "maximum", "is_valid"), [(3, 3, True), (1, 3, True), (4, 5, False), (1, 2, False)]
)
def test_an_elastic_role_starts_within_its_range(minimum, maximum, is_valid):
    plan = planner()
    plan.between("worker", minimum, maximum)

    message = f"3 is not between minReplicas {minimum} and maxReplicas {maximum}"
    wrong = [("roles.worker.replicas", message, "change replicas, minReplicas or maxReplicas")]
    assert reported(plan) == ([] if is_valid else wrong)


@pytest.mark.parametrize(
    ("role", "candidates", "decider", "hint"),
    [
        (None, ["ps"], "worker", None),
        ("ps", ["ps", "worker"], "ps", None),
        ("worke", ["ps", "worker"], "worker", 'did you mean "worker"?'),
        ("xx", ["ps", "worker"], "worker", "possible roles: ps, worker"),
        ("xx", [], "worker", "possible roles: none"),
    ],
)
def test_the_job_file_names_the_deciding_role(role, candidates, decider, hint):
    plan = planner(success_policy=SuccessPolicy(role))

    assert plan.decider("worker", iter(candidates)) == decider
    message = f'"{role}" cannot be the deciding role'
    assert reported(plan) == ([("successPolicy.role", message, hint)] if hint else [])


@pytest.mark.parametrize(
    ("replicas", "success"),
    [
        (None, ANY),
        ("All", None),
        ("First", FIRST),
        (1, Success(count=1)),
        (3, Success(count=3)),
        ("2", Success(count=2)),
    ],
)
def test_the_job_file_sets_when_the_deciding_role_has_succeeded(replicas, success):
    plan = planner(success_policy=SuccessPolicy(replicas=replicas), run_policy=RunPolicy("Running"))
    plan.add(WORKER, decides=True, success=ANY)
    plan.add(PS, success=ANY)

    assert [role.success for role in plan.roles] == [success, None]


@pytest.mark.parametrize(
    ("policy", "default", "fields", "expected"),
    [
        ("None", FIRST, {}, None),
        ("None", ANY, {}, None),
        ("All", FIRST, {}, FIRST),
        ("None", FIRST, {"tolerates_failure": True}, FIRST),
        ("None", Success(count=2, needed=True), {}, Success(count=2, needed=True)),
    ],
)
def test_without_cleanup_one_replica_does_not_end_the_others(policy, default, fields, expected):
    plan = planner(run_policy=RunPolicy(policy))
    plan.add(WORKER, decides=True, success=default, **fields)

    assert [role.success for role in plan.roles] == [expected]


def test_without_cleanup_an_explicit_success_policy_ends_the_others():
    plan = planner(success_policy=SuccessPolicy(replicas="First"))
    plan.add(WORKER, decides=True)

    assert [role.success for role in plan.roles] == [FIRST]
    assert reported(plan) == []


@pytest.mark.parametrize(
    ("policy", "replicas", "is_valid"),
    [("First", 3, True), ("All", 3, True), (2, 3, False), ("All", 1, True), (1, 1, True)],
)
def test_with_host_networking_no_number_of_replicas_can_decide(policy, replicas, is_valid):
    plan = planner(network=HOST, success_policy=SuccessPolicy(replicas=policy))
    plan.add(RoleSpec("worker", replicas), decides=True)

    problems = plan.topology().problems

    assert [problem.path[-1] for problem in problems] == ["replicas"] * (not is_valid)


@pytest.mark.parametrize(
    ("policy", "supervisor", "together", "deciding", "warnings"),
    [
        ("All", True, "all", ["0", "1", "2"], 0),
        ("All", False, "one", ["0"], 1),
        ("First", True, "one", ["0"], 0),
    ],
)
def test_all_replicas_on_the_host_network_decide_with_a_supervisor(
    policy, supervisor, together, deciding, warnings
):
    plan = planner(
        network=HOST, success_policy=SuccessPolicy(replicas=policy), supervisor=supervisor
    )
    plan.add(RoleSpec("worker", 3), decides=True)

    topology = plan.topology()
    assert topology.decides == together
    assert [str(role.index) for role in topology.roles if role.decides] == deciding
    assert len(topology.problems) == warnings


@pytest.mark.parametrize(
    ("bounds", "count"),
    [(GiveUpAfter(crashes=0), 0), (GiveUpAfter(crashes=2), 1), (GiveUpAfter(0, 600, 60), 1)],
)
def test_bounds_that_nothing_applies_are_a_warning_unless_they_bound_nothing(bounds, count):
    plan = planner(run_policy=RunPolicy(give_up_after=bounds), supervisor=False)
    plan.add(RoleSpec("worker"), decides=True)

    warnings = plan.topology().problems

    message = "without the supervisor, giveUpAfter has no effect"
    assert [warning.message for warning in warnings] == [message] * count


@pytest.mark.parametrize(
    ("policy", "default", "serves", "restart", "is_server"),
    [
        (None, None, False, "Never", False),
        (None, "OnFailure", False, "OnFailure", False),
        (None, None, True, "Always", True),
        ("ExitCode", "OnFailure", False, "ExitCode", False),
        ("Never", None, True, "Never", False),
        ("Always", None, True, "Always", True),
        ("Always", None, False, "OnFailure", False),
    ],
)
def test_restart_policies(policy, default, serves, restart, is_server):
    plan = planner()
    plan.add(RoleSpec("worker", restart_policy=policy), restart=default, serves=serves)

    (role,) = plan.roles
    assert (role.restart, role.serves) == (restart, is_server)
    changed = policy == "Always" and not serves
    assert [p.warning for p in plan.collector.problems] == [True] * changed
    assert [p.hint for p in plan.collector.problems] == ["write OnFailure for worker"] * changed


def test_fields_of_a_role_come_from_the_job_file_and_the_framework():
    plan = planner(more_ports={"worker": {"ui": 80}})
    plan.add(
        WORKER, replicas=2, each=lambda viewer: {"env": {"SEEN": str(viewer)}}, labels={"a": "b"}
    )

    (role,) = plan.roles
    assert (role.name, role.replicas, role.spec, role.port) == ("worker", 2, WORKER, 3333)
    assert (role.more_ports, role.env, role.labels) == ({"ui": 80}, {"SEEN": "None"}, {"a": "b"})
    assert (role.index, role.host_ports) == (None, {})


def test_with_host_networking_each_replica_is_a_role_with_its_own_ports():
    plan = planner(network=HOST, more_ports={"worker": {"ui": 80}})
    plan.add(WORKER, decides=True, each=lambda viewer: {"env": {"SEEN": str(viewer)}})

    assert [(r.name, r.replicas, r.index, r.decides) for r in plan.roles] == [
        ("worker", 1, 0, True),
        ("worker", 1, 1, False),
        ("worker", 1, 2, False),
    ]
    assert [role.env["SEEN"] for role in plan.roles] == [f"('worker', {i})" for i in range(3)]
    assert [role.host_ports for role in plan.roles] == [
        {name: plan.host_ports.port("worker", i, name) for name in ("peers", "ui")}
        for i in range(3)
    ]


def test_with_host_networking_a_replica_keeps_its_index():
    plan = planner(network=HOST)
    plan.add(WORKER, replicas=1, index=2, decides=True)

    (role,) = plan.roles
    assert (role.index, role.decides) == (2, False)


def test_too_few_ports_on_the_nodes_are_reported_once():
    plan = planner(network=Network(host=True, host_ports=HostPorts(20000, 1)))
    plan.add(WORKER)

    message = "the replicas need more than 1 ports"
    assert reported(plan) == [("network.hostPorts", message, "use a larger size")]
    assert [role.host_ports["peers"] for role in plan.roles] == [20000, 0, 0]


def test_replicas_with_a_variable_that_is_too_large_are_not_added():
    plan = planner(network=HOST)
    with pytest.raises(MlgenError) as caught:
        plan.add(WORKER, env={"LIST": "x" * (128 << 10)})
    assert not plan.roles
    assert [p.code for p in caught.value.problems] == ["too-large"]


def test_replicas_with_a_job_and_a_service_each_are_bounded():
    plan = planner(network=HOST)
    match = r"its own objects, a Job and a Service.*remove network\.host"
    with pytest.raises(MlgenError, match=match):
        plan.add(replace(WORKER, replicas=12_501))
    assert not plan.roles


def test_variables_of_all_replicas_are_bounded_together(monkeypatch):
    monkeypatch.setattr(_capacity, "JOB_BYTES", 3 << 20)
    plan = planner()
    specs = [replace(WORKER, name=f"w-{number}") for number in range(100)]
    for spec in specs[:30]:
        plan.add(spec, env={"LIST": "x" * (100 << 10)})
    with pytest.raises(MlgenError, match="exceed 3 MiB in total; use fewer replicas, or give"):
        plan.add(specs[30], env={"LIST": "x" * (100 << 10)})
    assert len(plan.roles) == 30


def test_the_pods_of_a_job_are_bounded():
    with pytest.raises(MlgenError, match="has 200,000 replicas; a cluster runs at most 150,000"):
        planner(replace(PS, replicas=100_000), replace(WORKER, replicas=100_000))


@pytest.mark.parametrize(
    ("policy", "supervisor", "specs", "is_supervised"),
    [
        (RunPolicy("Running"), True, (PS, WORKER), True),
        (RunPolicy("None"), True, (PS, WORKER), True),
        (RunPolicy("All"), False, (PS, WORKER), False),
        (RunPolicy("All"), True, (PS,), False),
        (RunPolicy(restart_scope="All"), True, (PS,), True),
        (RunPolicy(restart_scope="All"), False, (PS,), False),
        (RunPolicy(give_up_after=GiveUpAfter()), True, (PS,), True),
        (RunPolicy(metrics_port=9090), True, (PS,), True),
        (RunPolicy(progress=Progress()), True, (PS,), True),
    ],
)
def test_a_supervisor_is_needed_where_something_is_left_to_decide(
    policy, supervisor, specs, is_supervised
):
    plan = planner(*specs, run_policy=policy, supervisor=supervisor)
    for spec in specs:
        plan.add(spec, decides=spec is specs[-1])

    assert plan.topology().supervised is is_supervised


def test_the_topology_has_the_roles_files_and_warnings():
    plan = planner()
    plan.files["hostfile"] = "a\n"
    plan.report(("roles",), "a problem", "a fix", warn=True)
    plan.add(WORKER, decides=True)

    topology = plan.topology()

    assert (topology.job, topology.files) == (plan.job, {"hostfile": "a\n"})
    assert topology.roles == tuple(plan.roles)
    assert topology.problems == plan.collector.problems


def test_the_topology_contains_errors():
    plan = planner()
    plan.report(("roles",), "a problem", "a fix")

    assert [each.warning for each in plan.topology().problems] == [False]


def test_a_variable_with_the_index_as_a_number():
    value = {"task": {"type": "ps", "index": INDEX}, "name": INDEX}

    assert config(value) == (
        '{"task":{"type":"ps","index":$(MLGEN_REPLICA_INDEX)},"name":"$(MLGEN_REPLICA_INDEX)"}'
    )


URL, TOKEN = "KUBEFLOW_TRAINER_SERVER_URL", "KUBEFLOW_TRAINER_SERVER_TOKEN"
OUT = {"out": {"mountPath": "/out", "emptyDir": {}}}


def laid_out(*specs, **fields):
    """Return the topology of a planner with a plain Job for each role."""
    plan = planner(*specs, **fields)
    for spec in specs:
        plan.add(spec, decides=spec is specs[0])
    return plan.topology()


@pytest.mark.parametrize(
    ("fields", "url"),
    [
        ({}, "http://ctr-supervisor:8080/progress"),
        ({"namespace": "ads"}, "http://ctr-supervisor:8080/progress"),
        (
            {"namespace": "ads", "network": Network(cluster_domain="c.local")},
            "http://ctr-supervisor.ads.svc.c.local:8080/progress",
        ),
    ],
)
def test_all_replicas_know_where_to_report(fields, url):
    roles = laid_out(WORKER, run_policy=RunPolicy(progress=Progress()), **fields).roles

    assert [url, "/mlgen/pod/uid"] == [roles[0].env[name] for name in (URL, TOKEN)]
    assert ["/mlgen/pod"] == [mount.path for mount in roles[0].mounts]
    assert not any(helper.sidecar for helper in roles[0].helpers)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"run_policy": RunPolicy(metrics_port=8080)},
        {"run_policy": RunPolicy(progress=Progress()), "supervisor": False},
        {"run_policy": RunPolicy(progress=Progress()), "workflow": True},
    ],
)
def test_without_a_supervisor_that_listens_nothing_is_reported(fields):
    (role,) = laid_out(WORKER, **fields).roles

    assert URL not in role.env
    assert () == role.mounts


@pytest.mark.parametrize(
    ("file", "spec", "is_found"),
    [
        ("/out/a/p.json", {"volumes": OUT}, True),
        ("/out/./p.json", {"volumes": OUT}, True),
        ("/out/../p.json", {"volumes": OUT}, False),
        ("/output/p.json", {"volumes": OUT}, False),
        ("/out/p.json", {}, False),
    ],
)
def test_a_sidecar_watches_a_file_in_a_volume(file, spec, is_found):
    policy = RunPolicy(progress=Progress(file=file))

    topology = laid_out(replace(WORKER, **spec), run_policy=policy)

    (role,) = topology.roles
    assert is_found == any(helper.sidecar for helper in role.helpers)
    assert is_found != any("no volume" in each.message for each in topology.problems)


@pytest.mark.parametrize(
    ("fields", "count"),
    [({}, 1), ({"supervisor": False}, 0), ({"workflow": True}, 0)],
)
def test_restarts_of_stalled_training_require_a_gang(fields, count):
    policy = RunPolicy(progress=Progress(stalled_seconds=60, on_stall="Restart"))

    found = laid_out(WORKER, run_policy=policy, **fields).problems

    assert count == sum("requires runPolicy.restartScope" in each.message for each in found)


def test_only_roles_with_the_volume_have_a_sidecar():
    roles = laid_out(
        replace(WORKER, volumes=OUT), PS, run_policy=RunPolicy(progress=Progress(file="/out/p"))
    ).roles

    assert [True, False] == [any(h.sidecar for h in role.helpers) for role in roles]


PROXY = {"HTTP_PROXY": "http://proxy:3128"}
PROXIES = {
    "without exceptions": ({"env": PROXY}, "HTTP_PROXY"),
    "in lower case": ({"env": {"http_proxy": "http://proxy:3128"}}, "http_proxy"),
    "with other exceptions": ({"env": {**PROXY, "NO_PROXY": "localhost,.svc"}}, "HTTP_PROXY"),
    "a part of the name": ({"env": {**PROXY, "NO_PROXY": "visor,local.org"}}, "HTTP_PROXY"),
    "with an exception": ({"env": {**PROXY, "NO_PROXY": "a, ctr-supervisor.ads.svc.c.local"}}, ""),
    "with the domain": ({"env": {**PROXY, "no_proxy": ".c.local"}}, ""),
    "with all hosts": ({"env": {**PROXY, "NO_PROXY": "*"}}, ""),
    "only https": ({"env": {"HTTPS_PROXY": "http://proxy:3128"}}, ""),
    "empty": ({"env": {"HTTP_PROXY": ""}}, ""),
    "a Secret": ({"env": {**PROXY, "NO_PROXY": {"secret": "s", "key": "k"}}}, ""),
    "a ConfigMap": ({"env": PROXY, "env_from": ({"configMapRef": {"name": "proxy"}},)}, ""),
}


def test_reports_must_not_be_sent_to_a_proxy():
    for fields, name in PROXIES.values():
        for file in [None, "/out/p"]:
            spec = replace(WORKER, volumes=OUT, **fields)
            where = {"namespace": "ads", "network": Network(cluster_domain="c.local")}

            policy = RunPolicy(progress=Progress(file=file))
            found = laid_out(spec, PS, run_policy=policy, **where).problems

            texts = [each.message for each in found if "proxy" in each.message]
            # A sidecar, which reports the file, does not have the variable.
            assert len(texts) == bool(name and not file)
            assert all(
                f"the proxy of {name} instead of ctr-supervisor.ads.svc.c.local" in t for t in texts
            )
