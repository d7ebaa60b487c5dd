"""A valid job file becomes a TrainingJob: every field, merged and with defaults."""

import pytest

from mlgen.jobfile.model import (
    Helpers,
    HostPorts,
    Network,
    Placement,
    Rdma,
    RoleSpec,
    RunPolicy,
    Scheduling,
    Security,
    SuccessPolicy,
    Tensorboard,
    Together,
    TrainingJob,
    WaitFor,
    WaitPolicy,
)
from mlgen.jobfile.parser import training_job


def parsed(spec=None, metadata=None, **arguments):
    data = {
        "metadata": {"name": "mnist", **(metadata or {})},
        "spec": {"framework": "generic", "roles": {"worker": {}}, **(spec or {})},
    }
    return training_job(data, **arguments)


def worker(role, **spec):
    return parsed({"roles": {"worker": role}, **spec}).roles["worker"]


def test_a_minimal_job_has_the_defaults():
    assert parsed() == TrainingJob("mnist", "generic", {"worker": RoleSpec("worker")})


def test_metadata():
    labels = {"team": "vision"}
    job = parsed(metadata={"namespace": "ml", "nameSuffix": "hash", "labels": labels})

    assert (job.namespace, job.name_suffix, job.labels) == ("ml", "hash", labels)


@pytest.mark.parametrize(
    ("in_file", "argument", "namespace"),
    [(None, None, None), ("a", None, "a"), (None, "b", "b"), ("a", "b", "b")],
)
def test_the_argument_overrides_the_namespace(in_file, argument, namespace):
    metadata = {"namespace": in_file} if in_file else {}

    assert parsed(metadata=metadata, namespace=argument).namespace == namespace


@pytest.mark.parametrize("supervisor", [True, False])
def test_a_supervisor_may_be_disabled(supervisor):
    assert parsed(supervisor=supervisor).supervisor is supervisor


def test_annotations_that_track_the_file_are_dropped():
    rows = [
        ("example.com/team", True),
        ("config.kubernetes.io/depends-on", True),
        ("config.kubernetes.io/index", False),
        ("config.k8s.io/id", False),
        ("alpha.config.kubernetes.io/transformations", False),
        ("internal.config.kubernetes.io/path", False),
        ("internal.kpt.dev/upstream-identifier", False),
        ("kustomize.config.k8s.io/needs-hash", False),
    ]

    assert [
        dict(parsed(metadata={"annotations": {name: "x"}}).annotations) for name, _ in rows
    ] == [{name: "x"} if kept else {} for name, kept in rows]


def test_a_field_of_the_job():
    rows = [
        ("options", {"a": 1}, "options", {"a": 1}),
        ("volumes", {"a": {"pvc": "b"}}, "volumes", {"a": {"pvc": "b"}}),
        (
            "runPolicy",
            {"cleanPodPolicy": "All", "ttlSecondsAfterFinished": 9},
            "run_policy",
            RunPolicy(clean_pod_policy="All", ttl_seconds_after_finished=9),
        ),
        (
            "successPolicy",
            {"role": "worker", "replicas": 2},
            "success_policy",
            SuccessPolicy("worker", 2),
        ),
        ("wait", {"timeoutSeconds": 5}, "wait", WaitPolicy(5)),
        (
            "security",
            {"runAsUser": 1, "fsGroup": 2},
            "security",
            Security(run_as_user=1, fs_group=2),
        ),
        (
            "helpers",
            {"waitImage": "w", "kubectlImage": "k", "gitImage": "g"},
            "helpers",
            Helpers("w", "k", "g"),
        ),
        (
            "network",
            {"host": False, "hostPorts": {"base": 1, "allowReserved": True}},
            "network",
            Network(host=False, host_ports=HostPorts(1, allow_reserved=True)),
        ),
        (
            "network",
            {"rdma": {"mode": "sriov", "networks": ["a", "b"]}},
            "network",
            Network(rdma=Rdma(mode="sriov", networks=("a", "b"))),
        ),
        (
            "scheduling",
            {"topology": {"key": "a"}, "spread": {"key": "b", "mode": "preferred"}},
            "scheduling",
            Scheduling(topology=Together("a"), spread=Placement("b", "preferred")),
        ),
        (
            "scheduling",
            {"minResources": {"cpu": 8, "memory": "4Gi"}},
            "scheduling",
            Scheduling(min_resources={"cpu": "8", "memory": "4Gi"}),
        ),
        (
            "tensorboard",
            {"logDir": "/logs", "resources": {"cpu": 1}},
            "tensorboard",
            Tensorboard("/logs", resources={"limits": {"cpu": "1"}}),
        ),
    ]

    assert [getattr(parsed({field: value}), attribute) for field, value, attribute, _ in rows] == [
        expected for _, _, _, expected in rows
    ]


@pytest.mark.parametrize(
    ("network", "on_host"),
    [
        ({}, False),
        ({"host": True}, True),
        ({"rdma": {"mode": "host"}}, True),
        ({"rdma": {"mode": "host"}, "host": False}, False),
        ({"rdma": {"mode": "shared"}}, False),
    ],
)
def test_pods_use_the_network_of_the_node(network, on_host):
    assert parsed({"network": network}).network.on_host is on_host


def test_a_role_without_replicas_is_dropped_and_the_others_are_counted():
    job = parsed({"roles": {"ps": {"replicas": 2}, "evaluator": {"replicas": 0}, "worker": {}}})

    assert list(job.roles) == ["ps", "worker"]
    assert job.replicas == 3


def test_a_field_of_a_role_overrides_that_of_all_roles():
    role = worker({"image": "b", "command": ["c"]}, image="a", command=["x"], args=["d"])

    assert (role.image, role.command, role.args) == ("b", ("c",), ("d",))


@pytest.mark.parametrize("field", ["env", "volumes"])
def test_variables_and_volumes_of_a_role_are_added(field):
    role = worker({field: {"b": "2", "c": "3"}}, **{field: {"a": "1", "b": "1"}})

    assert list(getattr(role, field).items()) == [("a", "1"), ("b", "2"), ("c", "3")]


def test_the_template_of_a_role_comes_last():
    rows = [
        ({}, {}, ()),
        ({"template": {"a": 1}}, {}, ({"a": 1},)),
        ({}, {"template": {"b": 2}}, ({"b": 2},)),
        ({"template": {"a": 1}}, {"template": {"b": 2}}, ({"a": 1}, {"b": 2})),
    ]

    assert [worker(own, **shared).templates for shared, own, _ in rows] == [
        templates for _, _, templates in rows
    ]


def test_lists_and_quantities_of_a_role():
    role = worker(
        {
            "shmSize": 1024,
            "retryableExitCodes": [3, 4],
            "tolerations": [{"operator": "Exists"}],
            "waitFor": [{"role": "ps"}, {"role": "chief", "until": "name"}],
        }
    )

    assert role.shm_size == "1024"
    assert role.retryable_exit_codes == (3, 4)
    assert role.tolerations == ({"operator": "Exists"},)
    assert role.wait_for == (WaitFor("ps", "port"), WaitFor("chief", "name"))


def test_resources_outside_of_requests_and_limits_are_limits():
    rows = [
        ({}, {}),
        ({"cpu": 2}, {"limits": {"cpu": "2"}}),
        ({"requests": {"cpu": 1}}, {"requests": {"cpu": "1"}}),
        ({"limits": {"cpu": 1}}, {"limits": {"cpu": "1"}}),
        (
            {"cpu": 2, "memory": "1Gi", "requests": {"cpu": 1}},
            {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}},
        ),
    ]

    assert [worker({"resources": resources}).resources for resources, _ in rows] == [
        expected for _, expected in rows
    ]


def with_limits(*names):
    resources = {"limits": dict.fromkeys(names, 1)}
    return {"template": {"spec": {"containers": [{"name": "main", "resources": resources}]}}}


@pytest.mark.parametrize(
    ("scheduling", "gang"),
    [
        ({"queue": "q"}, "kueue"),
        ({"queue": "q", "gang": "volcano"}, "volcano"),
        ({"queue": "q", "schedulerName": "volcano"}, "none"),
        ({"priorityClassName": "high"}, "none"),
    ],
)
def test_a_queue_alone_is_of_kueue(scheduling, gang):
    assert parsed({"scheduling": scheduling}).scheduling.gang == gang


@pytest.mark.parametrize(
    ("role", "containers", "name"),
    [
        ({}, [{"name": "a", "image": "i"}], "a"),
        ({"image": "i"}, [{"name": "a", "tty": True}], "a"),
        ({"image": "i"}, [{"name": "sidecar", "image": "i"}], "main"),
        ({"image": "i", "command": ["t"]}, [{"name": "sidecar", "command": ["s"]}], "main"),
        ({}, [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}], "main"),
        ({}, [{"image": "i"}], "main"),
        ({}, [], "main"),
    ],
)
def test_the_only_container_that_can_train_is_the_training_container(role, containers, name):
    template = {"template": {"spec": {"containers": containers}}}

    assert worker(role | template).main_container == name


def test_a_limit_for_gpus_is_recognized():
    rows = [
        ({"resources": {"nvidia.com/gpu": 1}}, True),
        ({"resources": {"amd.com/gpu": 1}}, True),
        ({"resources": {"limits": {"nvidia.com/mig-1g.5gb": 1}}}, True),
        ({"resources": {"requests": {"nvidia.com/gpu": 1}}}, False),
        ({"resources": {"cpu": 1}}, False),
        ({"resources": {"gpu.example/nic": 1}}, False),
        (with_limits("cpu", "gpu.intel.com/i915"), False),
        (with_limits("cpu", "nvidia.com/gpu"), True),
        ({"template": {"spec": None}}, False),
        ({"template": {"spec": {"containers": None}}}, False),
        ({"template": {"spec": {"containers": [{"resources": None}]}}}, False),
    ]

    for role, gpus in rows:
        assert worker(role).gpus is gpus
