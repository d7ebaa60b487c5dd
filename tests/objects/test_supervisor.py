"""The supervisor: its Job, its permissions and the ConfigMap of conditions."""

import pytest
from objects.samples import at, one, role, topology

from mlgen.jobfile.model import Helpers, RunPolicy, Tensorboard
from mlgen.kubernetes.pod_security import violations
from mlgen.objects import build
from mlgen.objects.supervisor import scripts, supervisor_objects

ROLES = (role("ps", serves=True), role("worker", decides=True))


def of_supervisor(*roles, policy="Running", **fields):
    """The objects of the supervisor, by kind."""
    run_policy = fields.pop("run_policy", RunPolicy(policy))
    laid_out = topology(*(roles or ROLES), supervised=True, run_policy=run_policy, **fields)
    return {
        item["kind"]: item
        for item in build(laid_out)
        if item["metadata"]["name"] in ("mnist-supervisor", "mnist-status")
    }


def env_of(manifests):
    (container,) = at(manifests, "Job", "spec", "template", "spec", "containers")
    return {item["name"]: item["value"] for item in container["env"]}


def test_only_a_supervised_job_mounts_the_scripts():
    assert scripts(topology(supervised=True)) == ("supervise.sh", "watch.sh")
    assert scripts(topology()) == ()


def test_only_a_supervised_job_has_a_supervisor():
    objects = build(topology(*ROLES))

    assert "mnist-supervisor" not in [item["metadata"]["name"] for item in objects]
    assert [] == list(supervisor_objects(topology(*ROLES), objects))


@pytest.mark.parametrize(
    "roles",
    [
        [role("worker")],
        [role("worker", decides=True, serves=True)],
        [role("chief", decides=True), role("worker", decides=True)],
    ],
)
def test_without_exactly_one_deciding_job_there_is_no_supervisor(roles):
    assert {} == of_supervisor(*roles)


def test_the_order_of_its_objects():
    objects = build(topology(*ROLES))

    created = supervisor_objects(topology(*ROLES, supervised=True), objects)

    assert [item["kind"] for item in created] == [
        *("ServiceAccount", "Role", "RoleBinding"),
        *("ConfigMap", "Job"),
    ]


def test_its_job_retries_and_is_no_indexed_job():
    spec = of_supervisor()["Job"]["spec"]

    assert {key: value for key, value in spec.items() if key != "template"} == {
        "completions": 1,
        "parallelism": 1,
        "backoffLimit": 100,
    }


def test_its_job_has_the_suspension_and_the_exact_ttl_of_the_run_policy():
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
    assert metadata["annotations"] == {
        "sidecar.istio.io/inject": "false",
        "linkerd.io/inject": "disabled",
    }


def test_its_pod():
    manifests = of_supervisor(helpers=Helpers(kubectl_image="my/kubectl"))

    pod = manifests["Job"]["spec"]["template"]

    assert [] == violations(pod)
    container = one(pod["spec"].pop("containers"))
    assert pod["spec"] == {
        "restartPolicy": "OnFailure",
        "serviceAccountName": "mnist-supervisor",
        "volumes": [
            {
                "name": "mlgen-scripts",
                "configMap": {
                    "name": "mnist-config",
                    "items": [
                        {"key": "supervise.sh", "path": "supervise.sh"},
                        {"key": "watch.sh", "path": "watch.sh"},
                    ],
                    "defaultMode": 0o555,
                },
            },
            {"name": "tmp", "emptyDir": {}},
        ],
    }
    assert (container["name"], container["image"]) == ("supervisor", "my/kubectl")
    assert container["command"] == ["sh", "/mlgen/scripts/supervise.sh"]
    assert container["resources"]["limits"] == {"cpu": "500m", "memory": "128Mi"}
    assert container["volumeMounts"] == [
        {"name": "mlgen-scripts", "mountPath": "/mlgen/scripts", "readOnly": True},
        {"name": "tmp", "mountPath": "/tmp"},
    ]


def test_it_copies_what_a_site_requires_of_every_pod_but_not_the_node_of_the_role():
    site = {"tolerations": [{"operator": "Exists"}], "imagePullSecrets": [{"name": "registry"}]}
    templates = ({"spec": {**site, "nodeSelector": {"gpu": "a100"}, "nodeName": "n"}},)
    roles = [role("worker", {"templates": templates}, decides=True)]

    spec = of_supervisor(*roles)["Job"]["spec"]["template"]["spec"]

    assert site == {key: spec[key] for key in site}
    assert not {"nodeSelector", "nodeName"} & set(spec)


@pytest.mark.parametrize("policy", ["None", "Running"])
def test_its_variables(policy):
    assert env_of(of_supervisor(policy=policy)) == {
        "MLGEN_JOB": "mnist",
        "MLGEN_DECIDES": "mnist-worker",
        "MLGEN_WORKLOADS": "statefulset/mnist-ps",
        "MLGEN_CLEAN_POD_POLICY": policy,
        "HOME": "/tmp",
    }


def test_under_cleanup_of_all_its_variables_list_every_other_object_but_tensorboard():
    roles = (*ROLES, role("evaluator"))

    env = env_of(of_supervisor(*roles, policy="All", tensorboard=Tensorboard("/logs")))

    assert env["MLGEN_WORKLOADS"] == "statefulset/mnist-ps job/mnist-evaluator"
    assert env["MLGEN_OBJECTS"] == "configmap/mnist-config service/mnist"


@pytest.mark.parametrize("policy", ["None", "Running"])
def test_it_may_get_and_patch_workloads_and_its_status_by_name(policy):
    verbs = ["get", "patch"]

    assert of_supervisor(policy=policy)["Role"]["rules"] == [
        {
            "apiGroups": ["batch"],
            "resources": ["jobs"],
            "resourceNames": ["mnist-worker"],
            "verbs": verbs,
        },
        {
            "apiGroups": ["apps"],
            "resources": ["statefulsets"],
            "resourceNames": ["mnist-ps"],
            "verbs": verbs,
        },
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": ["mnist-status"],
            "verbs": verbs,
        },
    ]


def test_under_cleanup_of_all_it_may_delete_every_object_but_tensorboard_by_name():
    manifests = of_supervisor(
        role("worker", decides=True), policy="All", tensorboard=Tensorboard("/logs")
    )

    rules = [
        (rule["apiGroups"], rule["resources"], rule["resourceNames"], rule["verbs"])
        for rule in manifests["Role"]["rules"]
    ]
    assert rules == [
        (["batch"], ["jobs"], ["mnist-worker"], ["get", "patch", "delete"]),
        ([""], ["services"], ["mnist"], ["delete"]),
        ([""], ["configmaps"], ["mnist-config"], ["delete"]),
        ([""], ["configmaps"], ["mnist-status"], ["get", "patch"]),
    ]


def test_its_role_is_bound_to_its_own_account():
    manifests = of_supervisor(namespace="ml")

    assert manifests["ServiceAccount"]["metadata"]["name"] == "mnist-supervisor"
    assert manifests["RoleBinding"]["roleRef"]["name"] == "mnist-supervisor"
    assert manifests["RoleBinding"]["subjects"] == [
        {"kind": "ServiceAccount", "name": "mnist-supervisor", "namespace": "ml"}
    ]


def test_the_status_is_empty_and_is_not_deleted_by_the_label_of_the_job():
    status = of_supervisor()["ConfigMap"]

    assert status["metadata"]["name"] == "mnist-status"
    assert status["metadata"]["labels"]["app.kubernetes.io/component"] == "status"
    assert "mlgen.dev/job" not in status["metadata"]["labels"]
    assert not status.get("data")
