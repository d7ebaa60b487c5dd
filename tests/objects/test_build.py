"""All objects of a job, in the order in which they are applied."""

import pytest
from objects.samples import one, role, topology

from mlgen.jobfile.model import RunPolicy, Scheduling, Tensorboard
from mlgen.objects import build
from mlgen.resources import script
from mlgen.topology import ConfigFiles, Helper, Mount, Right


def named(objects):
    return [(item["kind"], item["metadata"]["name"]) for item in objects]


def of_kind(kind, objects):
    return [item for item in objects if item["kind"] == kind]


def test_a_plain_job_is_a_service_and_a_job():
    assert named(build(topology(role()))) == [("Service", "mnist"), ("Job", "mnist-worker")]


def test_objects_are_applied_before_the_pods_that_need_them():
    files = {"conf": {"mountPath": "/c", "files": {"a": "b"}}}
    roles = (
        role("worker", {"volumes": files}, decides=True, rights=(Right("pods", ("get",)),)),
        role("ps", serves=True, aliases={"mnist-ps-0": 0}),
    )

    objects = build(
        topology(
            *roles,
            supervised=True,
            tensorboard=Tensorboard("/logs"),
            scheduling=Scheduling("volcano"),
            run_policy=RunPolicy("Running"),
        )
    )

    assert named(objects) == [
        ("ServiceAccount", "mnist-worker"),
        ("Role", "mnist-worker"),
        ("RoleBinding", "mnist-worker"),
        ("Service", "mnist"),
        ("Service", "mnist-ps-0"),
        ("Service", "mnist-tensorboard"),
        ("PodGroup", "mnist"),
        ("Deployment", "mnist-tensorboard"),
        ("StatefulSet", "mnist-ps"),
        ("Job", "mnist-worker"),
        ("ServiceAccount", "mnist-supervisor"),
        ("Role", "mnist-supervisor"),
        ("RoleBinding", "mnist-supervisor"),
        ("Job", "mnist-supervisor"),
        ("ConfigMap", "mnist.files.conf"),
        ("ConfigMap", "mnist.status"),
        ("ConfigMap", "mnist.supervisor"),
    ]


@pytest.mark.parametrize(("count", "place"), [(19, -1), (20, 0)])
def test_files_come_before_many_workloads_whose_pods_would_wait_for_them(count, place):
    mounts = (Mount(ConfigFiles("hosts", ("hostfile",)), "/etc/mpi"),)
    roles = [role(mounts=mounts, index=index) for index in range(count)]

    objects = build(topology(*roles, files={"hostfile": "mnist-0\n"}))

    assert objects[place]["kind"] == "ConfigMap"


def test_roles_keep_their_order():
    objects = build(topology(role("b", index=1), role("a", index=0), role("c", serves=True)))

    assert named(objects) == [
        ("Service", "mnist"),
        ("StatefulSet", "mnist-c"),
        ("Job", "mnist-b-1"),
        ("Job", "mnist-a-0"),
    ]


def test_the_config_map_has_files_of_the_framework_and_scripts_by_name():
    of = role(
        helpers=(Helper("wait", "wait-for-peers.sh", "wait"),),
        mounts=(Mount(ConfigFiles("hosts", ("hostfile",)), "/etc/mpi"),),
    )

    objects = build(topology(of, files={"hostfile": "mnist-0\n", "unused": "x"}))

    config = one(of_kind("ConfigMap", objects))
    assert config["metadata"]["name"] == "mnist.config"
    assert config["metadata"]["labels"]["app.kubernetes.io/component"] == "config"
    assert list(config["data"]) == ["hostfile", "wait-for-peers.sh"]
    assert config["data"]["hostfile"] == "mnist-0\n"
    assert config["data"]["wait-for-peers.sh"] == script("wait-for-peers.sh")


RIGHTS = (
    Right("pods", ("get", "list")),
    Right("pods/exec", ("create",), ("mnist-0", "mnist-1")),
    Right("services", ("get", "list")),
)


def test_permissions_with_the_same_names_and_verbs_share_a_rule():
    objects = build(topology(role(rights=RIGHTS)))

    assert one(of_kind("Role", objects))["rules"] == [
        {"apiGroups": [""], "resources": ["pods", "services"], "verbs": ["get", "list"]},
        {
            "apiGroups": [""],
            "resources": ["pods/exec"],
            "resourceNames": ["mnist-0", "mnist-1"],
            "verbs": ["create"],
        },
    ]


@pytest.mark.parametrize(
    ("account", "created", "bound"),
    [(None, ["mnist-worker"], "mnist-worker"), ("trainer", [], "trainer")],
)
def test_permissions_are_granted_to_the_account_of_the_user_or_of_the_role(account, created, bound):
    objects = build(topology(role(rights=RIGHTS, spec={"service_account_name": account})))

    accounts = of_kind("ServiceAccount", objects)
    assert created == [item["metadata"]["name"] for item in accounts]
    assert [("Role", "mnist-worker"), ("RoleBinding", "mnist-worker")] == named(
        of_kind("Role", objects) + of_kind("RoleBinding", objects)
    )
    assert bound == one(of_kind("RoleBinding", objects))["subjects"][0]["name"]


def test_an_account_of_the_user_alone_needs_no_permissions():
    objects = build(topology(role(spec={"service_account_name": "trainer"})))

    assert named(objects) == [("Service", "mnist"), ("Job", "mnist-worker")]


def test_the_same_topology_builds_equal_objects():
    laid_out = topology(role(decides=True, rights=RIGHTS), supervised=True)

    assert build(laid_out) == build(laid_out)
