"""The pod template of a role."""

import pytest
from objects.samples import at, job, one, role, topology

from mlgen.jobfile.model import Network, Scheduling, Security
from mlgen.objects.pod import pod_template, service_account
from mlgen.problems import MlgenError
from mlgen.topology import INDEX, ConfigFiles, Helper, Hosts, Mount, Right, Scratch, Wait


def template(of=None, **fields):
    of = of or role(index=0)
    return pod_template(topology(of, **fields), of)


def test_the_smallest_pod():
    assert template() == {
        "metadata": {
            "labels": {
                "app.kubernetes.io/name": "tensorflow",
                "app.kubernetes.io/instance": "mnist",
                "app.kubernetes.io/component": "worker",
                "mlgen.dev/job": "mnist",
                "mlgen.dev/role": "worker",
                "mlgen.dev/replica-index": "0",
                "sidecar.istio.io/inject": "false",
            },
            "annotations": {"linkerd.io/inject": "disabled"},
        },
        "spec": {
            "hostname": "mnist-worker-0",
            "subdomain": "mnist",
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "containers": [
                {
                    "name": "main",
                    "env": [{"name": "MLGEN_REPLICA_INDEX", "value": "0"}],
                    "volumeMounts": [{"name": "mlgen-shm", "mountPath": "/dev/shm"}],
                }
            ],
            "volumes": [{"name": "mlgen-shm", "emptyDir": {"medium": "Memory"}}],
        },
    }


def test_the_controller_sets_the_hostname_of_indexed_pods():
    assert "hostname" not in template(role())["spec"]


def test_the_restart_policy_of_pods():
    rows = [
        ({"serves": True}, "Always"),
        ({"serves": True, "restart": "OnFailure"}, "Always"),
        ({"restart": "OnFailure"}, "OnFailure"),
        ({"restart": "Never"}, "Never"),
        ({"restart": "ExitCode"}, "Never"),
        ({"restart": "Workflow"}, "Never"),
    ]

    assert [policy for _, policy in rows] == [
        template(role(**fields))["spec"].get("restartPolicy", "Always") for fields, _ in rows
    ]


RIGHTS = (Right("pods", ("get",)),)


@pytest.mark.parametrize(
    ("of", "account"),
    [
        (role(), None),
        (role(spec={"service_account_name": "trainer"}), "trainer"),
        (role(rights=RIGHTS), "mnist-worker"),
        (role(rights=RIGHTS, spec={"service_account_name": "trainer"}), "trainer"),
    ],
)
def test_the_service_account_is_that_of_the_user_or_of_the_role(of, account):
    assert account == service_account(job(), of)
    assert account == template(of)["spec"].get("serviceAccountName")


def test_helpers_are_init_containers_that_share_the_volume_of_scripts():
    of = role(
        helpers=(
            Helper("one", "a.sh", "wait", mounts=(Mount(Scratch("bin"), "/b"),)),
            Helper("two", "a.sh", "wait"),
        ),
        mounts=(Mount(ConfigFiles("hosts", ("hostfile",)), "/etc/mpi"),),
        waits=(Wait("ps", Hosts("mnist-ps-", 1, ".mnist")),),
    )

    spec = template(of)["spec"]

    assert [item["name"] for item in spec["initContainers"]] == ["one", "two", "wait-for-peers"]
    assert [item["name"] for item in spec["volumes"]] == [
        "hosts",
        "bin",
        "mlgen-scripts",
        "mlgen-shm",
    ]
    assert spec["volumes"][2] == {"name": "mlgen-scripts", "configMap": {"name": "mnist.config"}}


def test_waiting_comes_after_the_init_containers_of_the_templates():
    own = [{"name": "wait-for-peers", "image": "own"}, {"name": "download", "image": "d"}]
    of = role(
        helpers=(Helper("kubectl", "a.sh", "kubectl", last=True), Helper("copy", "b.sh", "wait")),
        waits=(Wait("ps", Hosts("mnist-ps-", 1, ".mnist")),),
        spec={"templates": ({"spec": {"initContainers": own}},)},
    )

    containers = template(of)["spec"]["initContainers"]

    names = [container["name"] for container in containers]
    assert names == ["copy", "download", "kubectl", "wait-for-peers"]
    assert containers[-1]["image"] == "own"


def test_the_preflight_is_like_the_training_container_and_comes_last():
    template_of_user = {"spec": {"initContainers": [{"name": "download", "image": "d"}]}}
    of = role(
        waits=(Wait("ps", Hosts("mnist-ps-", 1, ".mnist")),),
        env={"RANK": INDEX},
        spec={
            "image": "i:1",
            "resources": {"limits": {"nvidia.com/gpu": "8"}},
            "preflight": {"command": ["check"], "env": [{"name": "A", "value": "b"}]},
            "init_containers": ({"name": "fetch", "command": ["fetch"]},),
            "templates": (template_of_user,),
        },
    )

    spec = template(of)["spec"]

    names = [container["name"] for container in spec["initContainers"]]
    assert names == ["download", "fetch", "wait-for-peers", "preflight"]
    preflight, main = spec["initContainers"][-1], spec["containers"][0]
    assert preflight == {
        "name": "preflight",
        "image": "i:1",
        "command": ["check"],
        "env": [*main["env"], {"name": "A", "value": "b"}],
        "resources": {"limits": {"nvidia.com/gpu": "8"}},
        "volumeMounts": main["volumeMounts"],
    }


def test_init_containers_of_templates_have_the_variables_of_their_rank():
    own = [{"name": "RANK", "value": "7"}, {"name": "HOME", "value": "/h"}]
    containers = [
        {"name": "own", "env": own},
        {"name": "none"},
        {"name": "log", "restartPolicy": "Always"},
        {"name": "wait-for-peers", "image": "own"},
        {"$patch": "delete", "name": "gone"},
    ]
    of = role(
        waits=(Wait("ps", Hosts("mnist-ps-", 1, ".mnist")),),
        env={"ADDRESS": "a:$(PORT)", "RANK": INDEX},
        spec={
            "env": {"PORT": "1", "OTHER": "x"},
            "templates": ({"spec": {"initContainers": containers}},),
        },
    )

    spec = template(of)["spec"]

    found = {each["name"]: each.get("env", []) for each in spec["initContainers"]}
    names = {name: [variable["name"] for variable in env] for name, env in found.items()}
    assert names == {
        "own": ["MLGEN_REPLICA_INDEX", "PORT", "ADDRESS", "RANK", "HOME"],
        "none": ["MLGEN_REPLICA_INDEX", "PORT", "RANK", "ADDRESS"],
        "log": [],
        "wait-for-peers": ["MLGEN_PEERS"],
    }
    assert {"name": "RANK", "value": "7"} in found["own"]


def test_scheduling_network_security_and_volumes_are_merged():
    result = template(
        role(spec={"main_container": "train", "volumes": {"d": {"pvc": "c", "mountPath": "/d"}}}),
        scheduling=Scheduling(priority_class_name="high"),
        network=Network(host=True),
        security=Security("restricted"),
    )

    spec = result["spec"]
    assert spec["priorityClassName"] == "high"
    assert spec["hostNetwork"] is True
    assert spec["securityContext"]["runAsNonRoot"] is True
    train = one(spec["containers"])
    assert train["name"] == "train"
    assert train["securityContext"]["allowPrivilegeEscalation"] is False
    assert [mount["name"] for mount in train["volumeMounts"]] == ["d", "mlgen-shm"]
    assert [volume["name"] for volume in spec["volumes"]] == ["d", "mlgen-shm"]


def test_templates_of_the_user_are_merged_last_and_in_order():
    templates = (
        {"spec": {"restartPolicy": "Always", "hostname": "a"}},
        {"spec": {"hostname": "b", "priorityClassName": None}},
    )

    spec = template(
        role(spec={"templates": templates}),
        scheduling=Scheduling(priority_class_name="high"),
    )["spec"]

    assert (spec["restartPolicy"], spec["hostname"]) == ("Always", "b")
    assert "priorityClassName" not in spec


def test_lists_of_containers_and_volumes_come_last():
    templates = (
        {
            "spec": {
                "initContainers": [{"name": "i"}],
                "volumes": [{"name": "v"}],
                "nodeName": "n",
            }
        },
    )

    spec = template(role(spec={"templates": templates}))["spec"]

    assert list(spec) == [
        "subdomain",
        "restartPolicy",
        "nodeName",
        "automountServiceAccountToken",
        "initContainers",
        "containers",
        "volumes",
    ]


def test_a_container_of_a_template_gets_the_index():
    logs = {"name": "logs", "args": ["$(MLGEN_REPLICA_INDEX)"]}

    containers = template(role(index=4, spec={"templates": ({"spec": {"containers": [logs]}},)}))[
        "spec"
    ]["containers"]

    assert containers[1]["env"] == [{"name": "MLGEN_REPLICA_INDEX", "value": "4"}]


def test_shared_memory_is_half_of_the_limit_in_a_template():
    limits = {"resources": {"limits": {"memory": "4Gi"}}}
    patch = {"spec": {"containers": [{"name": "main", **limits}]}}

    volumes = template(role(spec={"templates": (patch,)}))["spec"]["volumes"]

    assert at(volumes, 0, "emptyDir") == {"medium": "Memory", "sizeLimit": "2Gi"}


def test_without_shared_memory_there_is_no_volume():
    spec = template(role(spec={"shm_size": "0"}))["spec"]

    assert "volumes" not in spec
    assert "volumeMounts" not in spec["containers"][0]


@pytest.mark.parametrize(
    "containers",
    [
        None,
        [{"$patch": "replace"}, {"name": "logs"}],
        [{"name": "train", "$patch": "delete"}],
    ],
)
def test_a_template_that_removes_the_training_container_is_an_error(containers):
    templates = ({"spec": {"containers": containers}},)

    with pytest.raises(MlgenError) as error:
        template(role(index=2, spec={"main_container": "train", "templates": templates}))

    problem = one(error.value.problems)
    assert problem.path == ("spec", "roles", "worker", "template")
    assert problem.code == "combination"
    assert problem.message == 'the template removes the training container "train"'
    assert "mainContainer" in problem.hint
