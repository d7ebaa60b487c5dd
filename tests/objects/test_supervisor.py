"""The supervisor: its Job, its plan and program, its permissions, the ConfigMap of conditions."""

import json
from base64 import b64decode
from hashlib import sha256

import pytest
from objects.samples import at, one, role, topology

from mlgen.jobfile.model import (
    GiveUpAfter,
    Helpers,
    Progress,
    RunPolicy,
    ServerPolicy,
    SuccessPolicy,
    Tensorboard,
)
from mlgen.kubernetes.pod_security import violations
from mlgen.kubernetes.versions import KubeVersion
from mlgen.objects import build
from mlgen.objects.supervisor import archive, plan, plan_text, read_plan, rules, supervisor_objects
from mlgen.runtime.plan import Plan, Workload, load
from mlgen.topology import Hosts, Order, Wait
from mlgen.version import VERSION

ROLES = (role("ps", serves=True, endless=True), role("worker", decides=True))


def of_supervisor(*roles, policy="Running", decides="one", **fields):
    """The objects of the supervisor, by kind."""
    run_policy = fields.pop("run_policy", RunPolicy(policy))
    laid_out = topology(
        *(roles or ROLES), supervised=True, decides=decides, run_policy=run_policy, **fields
    )
    names = {"mnist-supervisor": "", "mnist.supervisor": "", "mnist.status": "Status"}
    return {
        names[item["metadata"]["name"]] or item["kind"]: item
        for item in build(laid_out)
        if item["metadata"]["name"] in names
    }


def plan_of(*roles, **fields):
    return json.loads(of_supervisor(*roles, **fields)["ConfigMap"]["data"]["plan.json"])


def test_only_a_supervised_job_has_a_supervisor():
    objects = build(topology(*ROLES))

    assert "mnist-supervisor" not in [item["metadata"]["name"] for item in objects]
    assert [] == list(supervisor_objects(topology(*ROLES), objects))


GANG = (role("worker", decides=True, gang=True),)
MOVES = {
    "a gang": ((1, 36), GANG, None, "Preferred"),
    "before the template may change": ((1, 35), GANG, None, ""),
    "a user who requires it": ((1, 36), GANG, "Required", "Required"),
    "a user who does not want it": ((1, 36), GANG, "Never", ""),
    "replicas that restart alone": ((1, 37), ROLES, "Required", ""),
}


@pytest.mark.parametrize("case", MOVES)
def test_a_gang_avoids_nodes_where_a_suspended_job_may_get_others(case):
    version, roles, word, expected = MOVES[case]
    policy = RunPolicy(restart_scope="All", avoid_nodes=word)
    laid_out = topology(*roles, supervised=True, run_policy=policy)

    assert expected == plan(laid_out, [], KubeVersion(*version)).avoid_nodes


def test_its_config_map_holds_the_archive_and_names_its_digest():
    item = of_supervisor()["ConfigMap"]

    content = b64decode(item["binaryData"]["supervisor.pyz"])
    digest = sha256(content).hexdigest()
    assert content == archive(read_plan(item["data"]["plan.json"]))
    assert item["metadata"]["annotations"] == {
        "mlgen.dev/program": f"mlgen:{VERSION}@sha256:{digest}"
    }


RULES = [
    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    {
        "action": "FailJob",
        "onExitCodes": {"containerName": "supervisor", "operator": "In", "values": [1]},
    },
]


@pytest.mark.parametrize(
    ("decides", "policy"), [("one", {}), ("all", {"podFailurePolicy": {"rules": RULES}})]
)
def test_its_job_is_retried_unless_it_decides_that_training_has_failed(decides, policy):
    spec = of_supervisor(decides=decides)["Job"]["spec"]

    spec.pop("template")
    assert spec == {"backoffLimit": 100, **policy}


def test_if_it_decides_its_job_alone_is_the_deciding_job_and_ends_as_the_training():
    roles = [role("driver", decides=True), role("worker", decides=True)]
    together = SuccessPolicy(roles=("driver", "worker"))

    manifests = of_supervisor(*roles, decides="all", success_policy=together)
    objects = build(topology(*roles, supervised=True, decides="all", success_policy=together))

    deciding = [i["metadata"]["name"] for i in objects if "mlgen.dev/decides" in str(i["metadata"])]
    assert deciding == ["mnist-supervisor"]
    container = one(at(manifests, "Job", "spec", "template", "spec", "containers"))
    assert {"name": "MLGEN_EXIT", "value": "1"} in container["env"]


def test_its_job_has_the_suspension_and_the_ttl_of_the_run_policy():
    run_policy = RunPolicy("Running", suspend=True, ttl_seconds_after_finished=5)

    spec = of_supervisor(run_policy=run_policy)["Job"]["spec"]

    assert (spec["suspend"], spec["ttlSecondsAfterFinished"]) == (True, 5)


def test_its_job_is_an_object_of_the_job_with_a_role_of_its_own():
    labels = of_supervisor()["Job"]["metadata"]["labels"]

    assert labels["mlgen.dev/job"] == "mnist"
    assert labels["mlgen.dev/role"] == "supervisor"
    assert labels["app.kubernetes.io/component"] == "supervisor"


def test_its_pod_is_no_pod_of_the_job_and_has_no_proxy():
    metadata = of_supervisor()["Job"]["spec"]["template"]["metadata"]

    assert "mlgen.dev/job" not in metadata["labels"]
    assert metadata["labels"]["mlgen.dev/role"] == "supervisor"
    assert metadata["labels"]["sidecar.istio.io/inject"] == "false"
    assert metadata["annotations"] == {"linkerd.io/inject": "disabled"}


def test_its_pod():
    manifests = of_supervisor(helpers=Helpers(python_image="my/python"))

    pod = manifests["Job"]["spec"]["template"]

    assert [] == violations(pod)
    container = one(pod["spec"].pop("containers"))
    assert pod["spec"] == {
        "restartPolicy": "Never",
        "serviceAccountName": "mnist-supervisor",
        "volumes": [{"name": "supervisor", "configMap": {"name": "mnist.supervisor"}}],
    }
    assert (container["name"], container["image"]) == ("supervisor", "my/python")
    assert container["command"] == ["python3", "/mlgen/supervisor.pyz"]
    assert container["env"] == [
        {
            "name": "MLGEN_RUN",
            "valueFrom": {
                "fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/controller-uid']"}
            },
        },
    ]
    assert container["resources"]["limits"] == {"cpu": "500m", "memory": "128Mi"}
    assert container["volumeMounts"] == [{"name": "supervisor", "mountPath": "/mlgen"}]


def test_with_a_port_for_metrics_prometheus_finds_it():
    template = of_supervisor(run_policy=RunPolicy(metrics_port=9090))["Job"]["spec"]["template"]

    annotations = template["metadata"]["annotations"]
    assert annotations["prometheus.io/scrape"] == "true"
    assert annotations["prometheus.io/port"] == "9090"
    container = one(template["spec"]["containers"])
    assert container["ports"] == [{"name": "metrics", "containerPort": 9090}]


PROMETHEUS = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}


@pytest.mark.parametrize("others", [(), (PROMETHEUS,)])
def test_a_network_policy_permits_only_the_pods_of_the_job_and_the_named_clients(others):
    own = ServerPolicy(also_from=others)
    policy = RunPolicy(metrics_port=9090, network_policy=own)
    objects = of_supervisor(run_policy=policy)

    template = objects["Job"]["spec"]["template"]["metadata"]["labels"]
    spec = objects["NetworkPolicy"]["spec"]
    assert spec["podSelector"]["matchLabels"].items() <= template.items()
    assert "mlgen.dev/supervises" in spec["podSelector"]["matchLabels"]
    (rule,) = spec["ingress"]
    pods = {"podSelector": {"matchLabels": {"mlgen.dev/job": "mnist"}}}
    assert rule == {"from": [pods, *others], "ports": [{"protocol": "TCP", "port": 9090}]}
    assert spec["policyTypes"] == ["Ingress"]


def test_there_is_no_network_policy_unless_it_is_requested_and_the_supervisor_listens():
    for policy in (RunPolicy(metrics_port=9090), RunPolicy(network_policy=ServerPolicy())):
        assert "NetworkPolicy" not in of_supervisor(run_policy=policy)


def test_it_copies_what_a_site_requires_of_every_pod_but_not_the_node_of_the_role():
    site = {"tolerations": [{"operator": "Exists"}], "imagePullSecrets": [{"name": "registry"}]}
    templates = ({"spec": {**site, "nodeSelector": {"gpu": "a100"}, "nodeName": "n"}},)
    roles = [role("worker", {"templates": templates}, decides=True)]

    spec = of_supervisor(*roles)["Job"]["spec"]["template"]["spec"]

    assert site == {key: spec[key] for key in site}
    assert not {"nodeSelector", "nodeName"} & set(spec)


def test_the_plan_of_servers_and_a_deciding_job():
    assert plan_of() == {
        "job": "mnist",
        "deciding": ["mnist-worker"],
        "workloads": [
            {"kind": "StatefulSet", "name": "mnist-ps", "role": "ps", "replicas": 2},
            {"kind": "Job", "name": "mnist-worker", "role": "worker", "replicas": 2},
        ],
        "cleanPodPolicy": "Running",
    }


GANG = (
    role("ps", serves=True, restart="Always", gang=True),
    role("worker", {"retryable_exit_codes": (42,)}, restart="ExitCode", gang=True, decides=True),
    role("chief", restart="ExitCode", gang=True),
    role("reader", restart="OnFailure", gang=True, replicas=1),
    role("evaluator", restart="Never", gang=True, tolerates_failure=True),
    role("server", restart="OnFailure"),
)


def test_the_plan_of_a_gang_has_the_exit_codes_after_which_it_restarts():
    document = plan_of(*GANG, run_policy=RunPolicy(restart_scope="All", backoff_limit=2))

    codes = {item["role"]: item.get("retryable") for item in document["workloads"]}
    assert codes == {
        "ps": "any",
        "worker": [42],
        "chief": ">=128",
        "reader": "any",
        "evaluator": None,
        "server": None,
    }
    assert (document["restartScope"], document["backoffLimit"]) == ("All", 2)
    tolerant = [item["role"] for item in document["workloads"] if "toleratesFailure" in item]
    assert tolerant == ["evaluator"]


def test_the_plan_has_order_bounds_and_deadline():
    roles = [role("first"), role("second", decides=True, orders=(Order("first", "Complete"),))]
    bounds = GiveUpAfter(crashes=0, image_pull_seconds=60, pending_seconds=3600)
    run_policy = RunPolicy(give_up_after=bounds, active_deadline_seconds=99, metrics_port=9090)

    document = plan_of(*roles, run_policy=run_policy)

    assert document["order"] == [{"role": "second", "until": "Complete", "of": "first"}]
    limits = ("imageSeconds", "pendingSeconds", "deadlineSeconds", "port")
    assert [document[name] for name in limits] == [60, 3600, 99, 9090]
    assert document["crashes"] == 0


SERVICE, CONFIG = ["Service", "mnist"], ["ConfigMap", "mnist.config"]


@pytest.mark.parametrize(
    ("policy", "ttl", "objects"),
    [
        ("Running", None, None),
        ("All", None, [SERVICE, CONFIG]),
        ("All", 5, [SERVICE, CONFIG]),
        ("None", 0, [SERVICE, CONFIG, ["ConfigMap", "mnist.supervisor"]]),
    ],
)
def test_the_plan_lists_what_is_deleted_but_not_tensorboard(policy, ttl, objects):
    run_policy = RunPolicy(policy, ttl_seconds_after_finished=ttl)

    waits = Wait("ps", Hosts("mnist-ps-", 1, ".mnist"))
    document = plan_of(
        role("worker", decides=True, waits=(waits,)),
        run_policy=run_policy,
        tensorboard=Tensorboard("/logs"),
    )

    assert document.get("objects") == objects
    assert document.get("ttlSeconds") == ttl


@pytest.mark.parametrize("roles", [ROLES, GANG])
def test_the_program_reads_the_plan(roles):
    policy = RunPolicy("All", restart_scope=("worker",), ttl_seconds_after_finished=0)
    laid_out = topology(*roles, supervised=True, run_policy=policy)

    loaded = load(plan_text(plan(laid_out, build(laid_out))), "run")

    assert [item.name for item in loaded.workloads] == [f"mnist-{each.name}" for each in roles]
    assert loaded.deciding == ("mnist-worker",)
    assert loaded.ttl_seconds == 0


@pytest.mark.parametrize(
    ("roles", "memory"),
    [
        ([role("worker", replicas=2, decides=True)], "128Mi"),
        ([role("worker", replicas=2, max_replicas=20_000, decides=True)], "384Mi"),
        ([role("worker", replicas=1, index=i, decides=not i) for i in range(1500)], "192Mi"),
        ([role("ps", serves=True, replicas=5000), role("worker", decides=True)], "160Mi"),
    ],
)
def test_its_memory_grows_with_the_pods_and_jobs_that_it_keeps(roles, memory):
    job = of_supervisor(*roles)["Job"]

    resources = one(at(job, "spec", "template", "spec", "containers"))["resources"]
    assert (resources["requests"]["memory"], resources["limits"]["memory"]) == (memory, memory)


FOLLOWS = RunPolicy("All", progress=Progress(stalled_seconds=60))


def test_reports_of_many_replicas_need_memory():
    job = of_supervisor(role("worker", replicas=5000, decides=True), run_policy=FOLLOWS)["Job"]

    container = one(at(job, "spec", "template", "spec", "containers"))
    assert container["resources"]["limits"]["memory"] == "192Mi"
    assert container["ports"] == [{"name": "metrics", "containerPort": 8080}]
    assert "prometheus.io/port" not in at(job, "spec", "template", "metadata", "annotations")


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        (None, {}),
        (Progress(), {"port": 8080, "progress": True}),
        (
            Progress(600, 60, "Restart"),
            {
                "port": 8080,
                "progress": True,
                "firstReportSeconds": 600,
                "stalledSeconds": 60,
                "restartStalled": True,
            },
        ),
    ],
)
def test_the_plan_has_the_limits_of_reports(progress, expected):
    before, after = (plan_of(run_policy=RunPolicy(progress=each)) for each in (None, progress))

    assert after == before | expected


def test_replicas_find_the_supervisor_by_the_name_of_its_service():
    found = of_supervisor(run_policy=FOLLOWS)
    labels = at(found["Job"], "spec", "template", "metadata", "labels")

    assert labels.items() >= at(found["Service"], "spec", "selector").items()
    assert at(found["Service"], "spec", "clusterIP") == "None"
    document = json.loads(found["ConfigMap"]["data"]["plan.json"])
    assert ["Service", "mnist-supervisor"] in document["objects"]
    assert "Service" not in of_supervisor(run_policy=RunPolicy(metrics_port=8080))


@pytest.mark.parametrize("count", [10, 11])
def test_many_jobs_are_watched_at_once_but_changed_by_name(count):
    names = [f"a-worker-{number}" for number in range(count)]
    workloads = tuple(Workload("Job", name, "worker") for name in names)

    jobs = [
        (rule.get("resourceNames"), rule["verbs"])
        for rule in rules(Plan("a", (), workloads=workloads))
        if rule["resources"] == ["jobs"]
    ]

    many = [(None, ["list", "watch"]), (names, ["get", "patch"])]
    assert jobs == (many if count == 11 else [(names, BY_NAME)])


def test_the_plan_leaves_out_the_defaults():
    policy = RunPolicy(restart_scope="All", backoff_limit=9, give_up_after=GiveUpAfter())
    made = plan(topology(*GANG, supervised=True, run_policy=policy), [])

    text = plan_text(made)

    assert load(text) == made
    names = ["job", "deciding", "workloads", "restartScope", "backoffLimit"]
    assert [*json.loads(text)] == names


def test_a_plan_of_another_version_of_mlgen_can_be_read():
    text = json.dumps({"job": "a", "deciding": [], "workloads": [], "retryOom": True})

    assert read_plan(text) == Plan("a", ())
    with pytest.raises(TypeError):
        load(text)


@pytest.mark.parametrize("number", [0, 7])
def test_the_program_reads_the_bounds_on_restarts(number):
    bounds = GiveUpAfter(start_failures=number, start_seconds=number, disruptions=number)
    policy = RunPolicy(restart_scope="All", give_up_after=bounds, backoff_reset_seconds=number)

    laid_out = topology(*GANG, supervised=True, run_policy=policy)
    loaded = load(plan_text(plan(laid_out, [])), "run")

    assert (loaded.crashes, loaded.image_seconds) == (5, 21600)
    assert [loaded.start_failures, loaded.start_seconds, loaded.disruptions] == [number] * 3
    assert loaded.backoff_reset_seconds == number


BY_NAME = ["get", "list", "watch", "patch"]


def test_it_may_delete_the_pods_of_servers_by_name_if_the_user_grants_it():
    policy = RunPolicy(force_delete_after_seconds=60)
    servers = (role("ps", serves=True, max_replicas=3), ROLES[1])
    found = of_supervisor(*servers, run_policy=policy)

    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]}
    names = ["mnist-ps-0", "mnist-ps-1", "mnist-ps-2"]
    assert rule | {"resourceNames": names} in found["Role"]["rules"]
    assert rule["verbs"] not in [each["verbs"] for each in of_supervisor()["Role"]["rules"]]
    document = json.loads(found["ConfigMap"]["data"]["plan.json"])
    assert document["forceDeleteSeconds"] == 60


@pytest.mark.parametrize(("policy", "more"), [("Running", []), ("All", ["delete"])])
def test_it_may_change_the_objects_of_the_job_by_name_and_read_pods(policy, more):
    rules = [
        (*rule["apiGroups"], *rule["resources"], rule.get("resourceNames"), rule["verbs"])
        for rule in of_supervisor(policy=policy)["Role"]["rules"]
    ]

    deleted = [("", "services", ["mnist"], ["get", *more])] if more else []
    assert rules == [
        ("batch", "jobs", ["mnist-worker"], BY_NAME + more),
        ("apps", "statefulsets", ["mnist-ps"], ["get", *more]),
        ("apps", "statefulsets/scale", ["mnist-ps"], ["patch"]),
        *deleted,
        ("", "configmaps", ["mnist.status"], ["get", "patch"]),
        ("", "pods", None, ["list", "watch"]),
        ("", "pods/log", None, ["get"]),
        ("", "events", None, ["create"]),
    ]


@pytest.mark.parametrize("keeps", [True, False])
def test_it_may_read_logs_unless_the_user_does_not_want_them_in_the_status(keeps):
    found = of_supervisor(run_policy=RunPolicy(keep_last_log=keeps))

    resources = [each["resources"] for each in found["Role"]["rules"]]
    assert (["pods/log"] in resources) == keeps
    document = json.loads(found["ConfigMap"]["data"]["plan.json"])
    assert document.get("keepLastLog", True) == keeps


def test_it_may_also_patch_and_delete_what_it_gives_a_time_to_live():
    job = Workload("Job", "a-worker", "worker")
    _, services, *_ = rules(
        Plan("a", (), workloads=(job,), objects=(("Service", "a"),), ttl_seconds=0)
    )

    assert (services["resourceNames"], services["verbs"]) == (["a"], ["get", "patch", "delete"])


def test_its_role_is_bound_to_its_own_account():
    manifests = of_supervisor(namespace="ml")

    assert manifests["ServiceAccount"]["metadata"]["name"] == "mnist-supervisor"
    assert manifests["RoleBinding"]["roleRef"]["name"] == "mnist-supervisor"
    assert manifests["RoleBinding"]["subjects"] == [
        {"kind": "ServiceAccount", "name": "mnist-supervisor", "namespace": "ml"}
    ]


def test_the_status_is_empty_and_is_not_deleted_by_the_label_of_the_job():
    status = of_supervisor()["Status"]

    assert status["metadata"]["name"] == "mnist.status"
    assert status["metadata"]["labels"]["app.kubernetes.io/component"] == "status"
    assert "mlgen.dev/job" not in status["metadata"]["labels"]
    assert not status.get("data")
