"""ElasticAIJobs: the arguments of ElasticDL's client, and the blocks of its roles."""

import pytest

from mlgen import dialects
from mlgen.documents.files import Text
from mlgen.problems import Place, Problem


def resource(*arguments, name="m", **blocks):
    blocks = {"master": {"image": "example/m:1"}, "worker": {"count": 1}} | blocks
    return {
        "apiVersion": "elasticdl.org/v1",
        "kind": "ElasticAIJob",
        "metadata": {"name": name},
        "spec": {"jobArgs": list(arguments), **blocks},
    }


@pytest.fixture
def arguments(job):
    """Return the arguments that are passed to the master."""

    def arguments(*words):
        return job(resource(*words))["spec"].get("options", {}).get("arguments", {})

    return arguments


def test_arguments_are_passed_to_the_master(arguments):
    rows = [
        (["--num_epochs=2"], {"num_epochs": 2}),
        (["--num_epochs 2"], {"num_epochs": 2}),
        (["--num_epochs", "2"], {"num_epochs": 2}),
        (["  --num_epochs 2 "], {"num_epochs": 2}),
        (["--model_params='a b'"], {"model_params": "a b"}),
        (["--model_params", "'a b'"], {"model_params": "'a b'"}),
        (["--num_ep", "2"], {"num_epochs": 2}),
        (["--loss", "a", "--optimizer", "b"], {"loss": "a", "optimizer": "b"}),
        (["--use_async"], {"use_async": True}),
        (["--use_async", "--num_epochs=1"], {"use_async": True, "num_epochs": 1}),
        (["--use_async", "False"], {"use_async": False}),
        (["--need_tf_config=True"], {"need_tf_config": True}),
        (["--task_fault_tolerance"], {"task_fault_tolerance": False}),
        (["--minibatch_size=08"], {"minibatch_size": "08"}),
        (["--minibatch_size=1.5"], {"minibatch_size": "1.5"}),
        (["--yaml=a.yaml", "--force_use_kube_config_file"], {}),
        (["--loss=a", "--loss=b"], {"loss": "b"}),
        (["stray", "--loss=a"], {"loss": "a"}),
    ]

    for words, passed in rows:
        assert arguments(*words) == passed


def test_wrong_arguments_are_reported(reported):
    rows = [
        (["--nonsense=1"], "unknown argument --nonsense, which ElasticDL logs and ignores"),
        (["--num_=1"], "unknown argument --num_"),
        (["--loss"], "argument --loss has no value"),
        (["--loss", "--use_async"], "argument --loss has no value"),
        (
            ["loss"],
            '"loss" is not an argument or the value of an argument, so ElasticDL ignores it',
        ),
        (
            ["--loss=a", "b"],
            '"b" is not an argument or the value of an argument, so ElasticDL ignores it',
        ),
        (["--loss=a b"], "a shell splits a b into several words"),
        (["--loss='a"], "a shell splits 'a into several words"),
        (["--loss=a", "--loss=b"], "duplicate argument --loss; the last one takes effect"),
        (
            ["--use_async", "--use_async"],
            "duplicate argument --use_async; the last one takes effect",
        ),
        (["--num_ps_pods=a"], 'expected an integer, got "a"'),
        (["--num_workers=2"], "--num_workers and worker.count are mutually exclusive"),
        (["--worker_image=a", "--job_name=b"], "--job_name differs from metadata.name, m"),
        (["--envs=a"], None),
    ]

    assert [[text for _, text in reported(resource(*words))] for words, _ in rows] == [
        [message] if message else [] for _, message in rows
    ]


def test_variables_are_those_of_every_role(job):
    rows = [
        ("A=1", {"A": "1"}),
        ("A=1,B=2", {"A": "1", "B": "2"}),
        ("A=1,2,B=", {"A": "1,2", "B": ""}),
        ("spark.home=/opt,A=b.c", {"spark.home": "/opt", "A": "b.c"}),
    ]

    assert [job(resource("--envs", envs))["spec"]["env"] for envs, _ in rows] == [
        env for _, env in rows
    ]


def test_a_problem_of_a_variable_with_dots_has_the_place_of_the_argument():
    text = """\
apiVersion: elasticdl.org/v1
kind: ElasticAIJob
metadata: {name: m}
spec:
  jobArgs:
    - --envs=spark.home=/opt
  master: {image: "example/m:1"}
"""
    (document,) = dialects.documents(Text("job.yaml", text))

    job, _ = dialects.native(document)

    problem = job.located(Problem(("spec", "env", "spark.home"), "", "bad-value"))
    assert problem.path == ("spec", "jobArgs", 0)
    assert problem.place == Place("job.yaml", 6, 7)


@pytest.mark.parametrize(
    ("block", "words", "workers"),
    [
        ({"count": 3}, [], 3),
        (None, [], 2),
        (None, ["--num_workers=4"], 4),
    ],
)
def test_the_number_of_workers_has_a_default(block, words, workers, job):
    custom_resource = resource(*words, worker=block)
    custom_resource["spec"] = {
        name: value for name, value in custom_resource["spec"].items() if value is not None
    }

    assert job(custom_resource)["spec"]["roles"]["worker"]["replicas"] == workers


@pytest.mark.parametrize(
    ("block", "words", "servers"),
    [
        (None, [], None),
        ({"image": "ps:1"}, [], 1),
        ({"count": 0}, [], 0),
        ({"count": 2}, [], 2),
        (None, ["--num_ps_pods=0"], 0),
        (None, ["--num_ps_pods=2"], 2),
    ],
)
def test_parameter_servers_are_optional(block, words, servers, job):
    roles = job(resource(*words, **({"ps": block} if block else {})))["spec"]["roles"]

    assert roles.get("ps", {}).get("replicas") == servers


@pytest.mark.parametrize(
    ("words", "blocks", "images"),
    [
        ([], {}, ["example/m:1", "example/m:1"]),
        ([], {"worker": {"count": 1, "image": "w:1"}}, ["example/m:1", "w:1"]),
        (["--worker_image=w:1"], {}, ["example/m:1", "w:1"]),
        (["--image_name=i:1"], {}, ["example/m:1", "i:1"]),
        (["--image_name=i:1", "--worker_image=w:1"], {}, ["example/m:1", "w:1"]),
    ],
)
def test_an_image_is_that_of_the_role_else_of_the_job_else_of_the_master(
    words, blocks, images, job
):
    spec = job(resource(*words, **blocks))["spec"]

    roles = [spec["roles"][name] for name in ("master", "worker")]
    assert [role.get("image", spec.get("image")) for role in roles] == images


def test_the_master_has_default_resources(job):
    roles = job(resource())["spec"]["roles"]

    assert roles["master"]["resources"] == {"cpu": "0.1", "memory": "1024Mi"}
    assert "resources" not in roles["worker"]


@pytest.mark.parametrize(
    ("words", "resources"),
    [
        (["--worker_resource_request=cpu=1"], {"cpu": "1"}),
        (["--worker_resource_limit=cpu=1"], {"cpu": "1"}),
        (["--worker_resource_request=cpu=1", "--worker_resource_limit=cpu=1"], {"cpu": "1"}),
        (
            ["--worker_resource_request=cpu=1", "--worker_resource_limit=cpu=2"],
            {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
        ),
        (
            ["--worker_resource_request=gpu=1,amd.com/gpu=2, ephemeral-storage = 1Gi"],
            {"nvidia.com/gpu": "1", "amd.com/gpu": "2", "ephemeral-storage": "1Gi"},
        ),
    ],
)
def test_a_request_is_also_the_default_limit(words, resources, job):
    words = [f"{name}='{value}'" for name, _, value in (word.partition("=") for word in words)]

    assert job(resource(*words))["spec"]["roles"]["worker"]["resources"] == resources


@pytest.mark.parametrize(
    ("requested", "message"),
    [
        ("disk=1Gi", 'Kubernetes has no resource "disk"'),
        ("cores=1", 'unknown resource "cores"'),
        ("cpu=1,cpu=2", 'duplicate field "cpu"'),
        ("cpu", 'expected NAME=VALUE, got "cpu"'),
        ("cpu=", 'expected NAME=VALUE, got "cpu="'),
        ("=1", 'expected NAME=VALUE, got "=1"'),
    ],
)
def test_wrong_resources_are_rejected(requested, message, reported):
    worker = {"count": 1, "resource_request": requested}

    assert reported(resource(worker=worker)) == [("spec.worker.resource_request", message)]


@pytest.mark.parametrize(
    ("role", "path"),
    [
        ("master", ("roles", "master", "template", "spec", "priorityClassName")),
        ("worker", ("options", "podPriority", "worker")),
    ],
)
def test_a_priority_is_for_a_pod_or_for_the_master_to_set(role, path, job):
    value = job(resource(f"--{role}_pod_priority=high"))["spec"]
    for step in path:
        value = value[step]

    assert value == "high"


VOLUMES = "claim_name=c,mount_path=/a,sub_path=b;host_path=/d,mount_path=/e"
SHORT = [
    {"pvc": "c", "mountPath": "/a", "subPath": "b"},
    {"hostPath": "/d", "mountPath": "/e"},
]


def test_an_argument_gives_the_volumes_of_all_roles(job):
    assert job(resource(f"--volume='{VOLUMES}'"))["spec"]["volumes"] == {
        "volume-0": SHORT[0],
        "volume-1": SHORT[1],
    }


def test_equal_volumes_of_two_roles_have_the_same_name(job):
    master = {"image": "example/m:1", "volume": VOLUMES}
    worker = {"count": 1, "volume": ";".join(reversed(VOLUMES.split(";"))) + ";"}
    worker["volume"] += "claim_name=f,mount_path=/f"

    roles = job(resource(master=master, worker=worker))["spec"]["roles"]

    assert roles["master"]["volumes"] == {"volume-0": SHORT[0], "volume-1": SHORT[1]}
    assert roles["worker"]["volumes"] == {
        "volume-1": SHORT[1],
        "volume-0": SHORT[0],
        "volume-2": {"pvc": "f", "mountPath": "/f"},
    }


def test_a_volume_of_one_block_is_not_for_other_roles(job):
    master = {"image": "example/m:1", "volume": VOLUMES}

    roles = job(resource(master=master))["spec"]["roles"]

    assert "volumes" in roles["master"]
    assert "volumes" not in roles["worker"]


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ("claim_name=c", 'invalid volume "claim_name=c"'),
        ("mount_path=/a", 'invalid volume "mount_path=/a"'),
        (
            "claim_name=c,host_path=/d,mount_path=/a",
            'invalid volume "claim_name=c,host_path=/d,mount_path=/a"',
        ),
        ("claim=c,mount_path=/a", 'unknown field "claim" of a volume'),
        ("host_path=/d,mount_path=/a,type=File", "mlgen does not set the hostPath type File"),
    ],
)
def test_wrong_volumes_are_reported(volume, message, reported):
    worker = {"count": 1, "volume": volume}

    assert reported(resource(worker=worker)) == [("spec.worker.volume", message)]


@pytest.mark.parametrize(("namespace", "metadata"), [("a", {}), ("a", {"namespace": "a"})])
def test_the_namespace_may_be_an_argument(namespace, metadata, job):
    custom_resource = resource(f"--namespace={namespace}")
    custom_resource["metadata"] |= metadata

    assert job(custom_resource)["metadata"]["namespace"] == "a"


def test_another_namespace_than_that_of_the_metadata_is_rejected(reported):
    custom_resource = resource("--namespace=a")
    custom_resource["metadata"]["namespace"] = "b"

    assert reported(custom_resource) == [
        ("spec.jobArgs[0]", "--namespace differs from metadata.namespace, b")
    ]


@pytest.mark.parametrize(
    ("words", "count"), [(["--log_file_path=/l"], 1), (["--log_file_path="], 0)]
)
def test_what_the_client_does_with_an_argument_is_reported(words, count, reported):
    message = "the client also writes the master's output to this file; mlgen does not"

    assert [text for _, text in reported(resource(*words)) if text == message] == [message] * count


def test_policies_of_pods_apply_to_the_master_too(job):
    spec = job(resource("--image_pull_policy=Never", "--restart_policy=OnFailure"))["spec"]

    master = spec["roles"]["master"]
    assert (master["imagePullPolicy"], master["restartPolicy"]) == ("Never", "OnFailure")
    assert spec["options"]["arguments"] == {
        "image_pull_policy": "Never",
        "restart_policy": "OnFailure",
    }


def test_a_strategy_is_an_option(job):
    options = job(resource("--distribution_strategy=Local"))["spec"]["options"]

    assert options == {"distributionStrategy": "Local"}


@pytest.mark.parametrize(("lower", "upper"), [("master", "Master"), ("ps", "PS")])
def test_a_block_has_one_of_two_names(lower, upper, reported):
    block = {"image": "example/m:1"} | ({"count": 1} if lower == "ps" else {})

    assert reported(resource(**{lower: block, upper: block})) == [
        (f"spec.{upper}", f"{lower} and {upper} are mutually exclusive")
    ]
