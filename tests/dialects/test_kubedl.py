"""A KubeDL job as a dict → the TrainingJob and the reported problems."""

import json

import pytest

from mlgen import dialects
from mlgen.documents.document import Document, marked
from mlgen.problems import MlgenError, Place, dotted

FIELDS = {
    "TFJob": ("tfReplicaSpecs", "tensorflow"),
    "PyTorchJob": ("pytorchReplicaSpecs", "pytorch"),
    "XGBoostJob": ("xgbReplicaSpecs", "xgboostjob"),
    "XDLJob": ("xdlReplicaSpecs", "xdl"),
    "MarsJob": ("marsReplicaSpecs", "mars"),
    "MPIJob": ("mpiReplicaSpecs", "mpi"),
    "ElasticDLJob": ("elasticdlReplicaSpecs", "elasticdl"),
}
RETRYABLE = [130, 137, 138, 143]
GIT = "kubedl.io/git-sync-config"
TENSORBOARD = "kubedl.io/tensorboard-config"
NETWORK = "kubedl.io/network-mode"
FAILOVER = [
    (
        f"metadata.annotations.{NETWORK}",
        "KubeDL gives a restarted replica another host port; with mlgen, it keeps its own",
    )
]


def job(kind, roles, annotations=None, **spec):
    """A job with one container per role. `roles` contains further fields of each role."""
    field, container = FIELDS[kind]
    replica_specs = {}
    for role, settings in roles.items():
        main = {"name": container, "image": "example/main:1"} | settings.get("container", {})
        pod = {"containers": [main]} | settings.get("pod", {})
        fields = {key: settings[key] for key in settings if key not in ("container", "pod")}
        replica_specs[role] = {"template": {"spec": pod}} | fields
    return {
        "apiVersion": "training.kubedl.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "mnist"} | ({"annotations": annotations} if annotations else {}),
        "spec": {field: replica_specs} | spec,
    }


def convert(resource):
    """The TrainingJob, and the path and message of each warning."""
    document, warnings = dialects.native(Document(resource, marked({(): Place("job.yaml")})))
    return document.data, [(dotted(w.path), w.message) for w in warnings]


def spec_of(resource):
    return convert(resource)[0]["spec"]


def problems(resource):
    """The path and message of each error. Warnings are omitted."""
    with pytest.raises(MlgenError) as raised:
        dialects.native(Document(resource, marked({(): Place("job.yaml")})))
    errors = [problem for problem in raised.value.problems if not problem.warning]
    assert {error.code for error in errors} == {"refused"}
    assert all(error.hint for error in errors)
    return [(dotted(error.path), error.message) for error in errors]


@pytest.mark.parametrize(
    ("kind", "role", "framework", "restart"),
    [
        ("TFJob", "Worker", "tensorflow", "ExitCode"),
        ("PyTorchJob", "Master", "pytorch", "ExitCode"),
        ("XGBoostJob", "Master", "xgboost", "Always"),
        ("XDLJob", "Scheduler", "xdl", "Never"),
        ("MarsJob", "Scheduler", "mars", "Never"),
        ("MarsJob", "WebService", "mars", "Always"),
        ("MarsJob", "Worker", "mars", "ExitCode"),
        ("MPIJob", "Launcher", "generic", "Never"),
        ("ElasticDLJob", "Master", "elasticdl", "Always"),
    ],
)
def test_each_kind_has_a_framework_and_default_restart_policies(kind, role, framework, restart):
    spec = spec_of(job(kind, {role: {"container": {"command": ["train"]}}}))

    fields = spec["roles"][role.lower()]
    assert spec["framework"] == framework
    assert fields["restartPolicy"] == restart
    assert fields.get("retryableExitCodes") == (RETRYABLE if restart == "ExitCode" else None)


def test_workers_of_a_pytorchjob_restart_on_failure_by_default():
    spec = spec_of(job("PyTorchJob", {"Master": {}, "Worker": {"replicas": 2}}))

    assert spec["roles"]["worker"]["restartPolicy"] == "OnFailure"


@pytest.mark.parametrize("annotations", [{}, {NETWORK: "host"}])
def test_master_and_workers_of_a_pytorchjob_must_succeed(annotations):
    roles = {"Master": {}, "Worker": {"replicas": 2}}

    assert spec_of(job("PyTorchJob", roles, annotations))["successPolicy"] == {
        "roles": ["master", "worker"]
    }
    assert "successPolicy" not in spec_of(job("PyTorchJob", {"Master": {}}, annotations))


@pytest.mark.parametrize(
    ("limit", "restart", "crashes"),
    [(None, "Always", 0), (0, "Always", 1), (4, "Always", 4), (4, "OnFailure", None)],
)
def test_crashes_of_servers_count_against_the_backoff_limit(limit, restart, crashes):
    roles = {"PS": {"restartPolicy": restart}, "Worker": {}}
    limits = {} if limit is None else {"backoffLimit": limit}

    policy = spec_of(job("TFJob", roles, **limits))["runPolicy"]

    assert policy.get("giveUpAfter") == (None if crashes is None else {"crashes": crashes})


def test_an_xdljob_without_a_limit_counts_crashes_up_to_its_default():
    roles = {"PS": {"restartPolicy": "Always"}, "Worker": {}}

    assert spec_of(job("XDLJob", roles))["runPolicy"]["giveUpAfter"] == {"crashes": 20}


@pytest.mark.parametrize(
    ("restarts", "fields", "limit"),
    [
        (["ExitCode", "Never"], {}, 2147483647),
        (["ExitCode", "ExitCode"], {"backoffLimit": 3}, 3),
        (["ExitCode", "OnFailure"], {}, 20),
        (["Never", "Never"], {}, 20),
    ],
)
def test_the_default_limit_of_an_xdljob_does_not_count_exit_codes(restarts, fields, limit):
    roles = [{"restartPolicy": restart} for restart in restarts]
    resource = job("XDLJob", dict(zip(("PS", "Worker"), roles, strict=True)), **fields)

    assert spec_of(resource)["runPolicy"]["backoffLimit"] == limit


def test_the_web_services_of_a_marsjob_may_crash_for_ever():
    roles = {"Scheduler": {}, "WebService": {}, "Worker": {}}

    assert spec_of(job("MarsJob", roles))["runPolicy"]["giveUpAfter"] == {"crashes": 0}


def test_a_written_restart_policy_replaces_the_default():
    spec = spec_of(job("TFJob", {"Worker": {"restartPolicy": "Never", "replicas": 2}}))

    assert spec["roles"]["worker"] == {
        "replicas": 2,
        "restartPolicy": "Never",
        "mainContainer": "tensorflow",
        "image": "example/main:1",
    }


def test_each_kind_has_default_policies():
    rows = [
        ("TFJob", {"cleanPodPolicy": "Running", "backoffLimit": 2147483647}),
        ("XGBoostJob", {"ttlSecondsAfterFinished": 100, "backoffLimit": 2147483647}),
        ("XDLJob", {"cleanPodPolicy": "Running", "backoffLimit": 20}),
        ("MarsJob", {"backoffLimit": 2147483647}),
    ]

    assert [spec_of(job(kind, {"Worker": {}}))["runPolicy"] for kind, _ in rows] == [
        policies for _, policies in rows
    ]


def test_written_policies_replace_the_defaults():
    policies = {"cleanPodPolicy": "All", "ttlSecondsAfterFinished": 1, "backoffLimit": 0}

    for kind in ("TFJob", "XGBoostJob", "XDLJob"):
        assert spec_of(job(kind, {"Worker": {}}, **policies))["runPolicy"] == policies


def test_replicas_that_never_restart_have_the_limit_of_kubernetes():
    spec = spec_of(job("MarsJob", {"Worker": {"restartPolicy": "Never"}}))

    assert "runPolicy" not in spec


def test_a_job_that_kubedl_would_not_run_is_an_error():
    rows = [
        (
            job("PyTorchJob", {"Worker": {}}),
            "spec.pytorchReplicaSpecs",
            "a Master is required",
        ),
        (
            job("PyTorchJob", {"Master": {"replicas": 2}}),
            "spec.pytorchReplicaSpecs.Master.replicas",
            "the Master must have one replica",
        ),
        (
            job("MPIJob", {"Worker": {"replicas": 1}}),
            "spec.mpiReplicaSpecs",
            "a Launcher is required, because it runs mpirun",
        ),
        (
            job("MPIJob", {"Launcher": {"replicas": 0}}),
            "spec.mpiReplicaSpecs.Launcher.replicas",
            "the Launcher must have one replica",
        ),
        (
            job("MPIJob", {"Launcher": {}, "Worker": {}}),
            "spec.mpiReplicaSpecs.Worker",
            "replicas is required for Worker",
        ),
        (
            job("MPIJob", {"Launcher": {}}, gpus=8),
            "spec.gpus",
            "with gpus, KubeDL creates workers that run mpirun themselves",
        ),
    ]

    assert [problems(resource) for resource, _, _ in rows] == [
        [(path, message)] for _, path, message in rows
    ]


def test_a_run_policy_that_kubedl_does_not_read_has_no_effect():
    resource = job("TFJob", {"Worker": {}}, runPolicy={"backoffLimit": 1}, cleanPodPolicy="All")

    assert spec_of(resource)["runPolicy"] == {"cleanPodPolicy": "All", "backoffLimit": 2147483647}


def test_a_run_policy_of_an_mpijob_is_read():
    spec = spec_of(job("MPIJob", {"Launcher": {}}, runPolicy={"backoffLimit": 3}))

    assert spec["runPolicy"] == {"cleanPodPolicy": "Running", "backoffLimit": 3}


@pytest.mark.parametrize("annotations", [{}, {NETWORK: "host"}])
@pytest.mark.parametrize(
    ("roles", "policy"),
    [
        (["Worker"], {"role": "worker", "replicas": "All"}),
        (["Chief", "Worker"], {"roles": ["chief", "worker"]}),
        (["Master", "Worker"], {"roles": ["master", "worker"]}),
        (["Chief"], None),
    ],
)
def test_all_workers_of_a_tfjob_decide_with_its_leader(roles, policy, annotations):
    resource = job("TFJob", {role: {} for role in roles}, annotations, successPolicy="AllWorkers")

    document, reported = convert(resource)

    assert document["spec"].get("successPolicy") == policy
    assert reported == (FAILOVER if annotations else [])


def test_the_first_worker_of_a_tfjob_decides_by_default():
    assert "successPolicy" not in spec_of(job("TFJob", {"Worker": {}}, successPolicy=""))


@pytest.mark.parametrize(("mode", "host"), [("host", True), ("bridge", None)])
def test_the_annotation_for_host_networking_becomes_a_field(mode, host):
    document, _ = convert(job("TFJob", {"Worker": {}}, {NETWORK: mode}))

    assert document["spec"].get("network", {}).get("host") is host
    assert document["metadata"].get("annotations") == (None if host else {NETWORK: mode})


def test_other_annotations_stay():
    document, _ = convert(job("TFJob", {"Worker": {}}, {NETWORK: "host", "a": "1"}))

    assert document["metadata"]["annotations"] == {"a": "1"}


@pytest.mark.parametrize(("value", "count"), [("true", 1), ("false", 0)])
def test_elastic_training_is_a_warning(value, count):
    annotation = "kubedl.io/enable-elastic-training"

    _, warnings = convert(job("PyTorchJob", {"Master": {}}, {annotation: value}))

    assert [path for path, _ in warnings] == [f"metadata.annotations.{annotation}"] * count


def test_an_aimaster_is_not_rendered():
    document, warnings = convert(job("PyTorchJob", {"Master": {}, "AIMaster": {}}))

    assert list(document["spec"]["roles"]) == ["master"]
    assert [path for path, _ in warnings] == ["spec.pytorchReplicaSpecs.AIMaster"]


def test_an_xdljob_has_its_own_path_in_zookeeper():
    container = {"env": [{"name": "ZK_ADDR", "value": "zfs://zk:2181/xdl/"}]}

    spec = spec_of(job("XDLJob", {"Worker": {"container": container}}))

    assert spec["roles"]["worker"]["env"] == {"ZK_ADDR": "zfs://zk:2181/xdl/mnist"}


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({"minFinishWorkNum": 2}, {"minFinishWorkNum": 2}),
        ({"minFinishWorkNum": 2, "minFinishWorkRate": 90}, {"minFinishWorkRate": 90}),
        ({"minFinishWorkNum": 2, "minFinishWorkRate": 0}, {"minFinishWorkRate": 0}),
    ],
)
def test_the_rate_of_workers_that_must_finish_overrides_their_number(fields, options):
    assert spec_of(job("XDLJob", {"Worker": {}}, **fields))["options"] == options


def test_the_extendrole_of_an_xdljob_does_not_count():
    _, warnings = convert(job("XDLJob", {"Worker": {}, "ExtendRole": {}}))

    assert [place for place, _ in warnings] == ["spec.xdlReplicaSpecs.ExtendRole"]


@pytest.mark.parametrize(
    ("replicas", "fields", "needed"),
    [
        (9, {}, None),
        (10, {}, "9 of 10"),
        (4, {"minFinishWorkRate": 50}, "2 of 4"),
        (4, {"minFinishWorkNum": 3}, "3 of 4"),
        (4, {"minFinishWorkNum": 4}, None),
    ],
)
def test_all_workers_of_an_xdljob_must_succeed_on_the_host_network(replicas, fields, needed):
    roles = {"Worker": {"replicas": replicas}}

    document, warnings = convert(job("XDLJob", roles, {NETWORK: "host"}, **fields))

    message = "with host networking, mlgen renders a Job for each worker, and all must succeed"
    reported = [(f"metadata.annotations.{NETWORK}", f"{message}; KubeDL requires {needed}")]
    assert document["spec"]["successPolicy"] == {"replicas": "All"}
    assert warnings == (reported if needed else [])


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        ({"workerCacheSize": 5, "workerCachePercentage": 9}, {"workerCacheSize": "5"}),
        ({"workerCachePercentage": 100}, {"workerCachePercentage": 100}),
        ({"workerCachePercentage": 101}, {"workerCachePercentage": 100}),
        ({"plasmaStore": "/p", "lockFreeFileIO": True, "spillDirs": ["/s"]}, None),
    ],
)
def test_the_memory_policy_of_a_marsjob_becomes_options(policy, options):
    spec = spec_of(job("MarsJob", {"Worker": {}}, workerMemoryTuningPolicy=policy))

    assert spec["options"] == {"workerMemoryTuningPolicy": options or policy}


def test_a_cache_of_zero_percent_is_the_default():
    policy = {"workerCachePercentage": 0}

    assert "options" not in spec_of(job("MarsJob", {"Worker": {}}, workerMemoryTuningPolicy=policy))


def test_the_host_of_a_marsjob_is_a_warning():
    _, warnings = convert(job("MarsJob", {"Worker": {}}, webHost="mars.example"))

    message = "KubeDL creates an Ingress for mars.example; mlgen does not"
    assert warnings == [("spec.webHost", message)]


@pytest.mark.parametrize(
    ("container", "count"), [({}, 1), ({"command": ["a"]}, 0), ({"args": ["a"]}, 0)]
)
def test_an_elasticdl_master_without_a_command_is_a_warning(container, count):
    _, warnings = convert(job("ElasticDLJob", {"Master": {"container": container}}))

    at = "spec.elasticdlReplicaSpecs.Master.template.spec.containers"
    assert [path for path, _ in warnings] == [at] * count


@pytest.mark.parametrize(
    ("names", "chosen", "main"),
    [
        (["a", "mpi"], None, "mpi"),
        (["a", "mpi"], "a", "a"),
        (["a", "mpi"], "c", "mpi"),
        (["a", "b"], None, "a"),
    ],
)
def test_the_training_container_of_an_mpijob_may_have_any_name(names, chosen, main):
    pod = {"containers": [{"name": name, "image": "a:1"} for name in names]}
    fields = {"mainContainer": chosen} if chosen else {}

    spec = spec_of(job("MPIJob", {"Launcher": {"pod": pod}}, **fields))

    assert spec["roles"]["launcher"]["mainContainer"] == main


def test_only_a_kind_with_services_has_a_port_that_peers_connect_to():
    ports = {"TFJob": "tfjob-port", "ElasticDLJob": "elasticdl-port"}
    roles = {"TFJob": "Worker", "ElasticDLJob": "Master"}

    written = {}
    for kind, name in ports.items():
        container = {"command": ["a"], "ports": [{"name": name, "containerPort": 2222}]}
        spec = spec_of(job(kind, {roles[kind]: {"container": container}}))
        written[kind] = spec["roles"][roles[kind].lower()].get("port")

    assert written == {"TFJob": 2222, "ElasticDLJob": None}


@pytest.mark.parametrize("kind", ["TFJob", "PyTorchJob", "XGBoostJob", "XDLJob", "MarsJob"])
def test_the_training_container_of_a_kind_with_services_has_its_name_or_is_the_only_one(kind):
    role = "Master" if kind in ("PyTorchJob", "XGBoostJob") else "Worker"
    resource = job(kind, {role: {"container": {"name": "main"}}})
    containers = resource["spec"][FIELDS[kind][0]][role]["template"]["spec"]["containers"]

    assert "mlgen uses the only container" in str(convert(resource)[1])

    containers.append({"name": "logs", "image": "example/logs:1"})
    ((path, _),) = problems(resource)

    assert path == f"spec.{FIELDS[kind][0]}.{role}.template.spec.containers"


@pytest.mark.parametrize(
    ("distribution", "implementation"), [("OpenMPI", "OpenMPI"), ("IntelMPI", "Intel")]
)
def test_mpirun_starts_processes_in_the_launcher_too(distribution, implementation):
    roles = {"Launcher": {}, "Worker": {"replicas": 2}}

    spec = spec_of(job("MPIJob", roles, mpiDistribution=distribution, slotsPerWorker=4))

    assert spec["framework"] == "mpi"
    assert spec["options"] == {
        "slotsPerWorker": 4,
        "implementation": implementation,
        "runLauncherAsWorker": True,
    }


def test_on_the_host_network_mpirun_starts_no_processes_in_the_launcher():
    roles = {"Launcher": {}, "Worker": {"replicas": 2}}

    document, warnings = convert(job("MPIJob", roles, {NETWORK: "host"}))

    assert document["spec"]["options"] == {"slotsPerWorker": 1}
    message = "KubeDL also starts processes in the launcher; mlgen does not with host networking"
    assert warnings == [(f"metadata.annotations.{NETWORK}", message)]


@pytest.mark.parametrize(
    ("launcher", "restart", "count"),
    [
        ("OnFailure", "Always", 0),
        ("OnFailure", "OnFailure", 0),
        ("OnFailure", "Never", 1),
        ("ExitCode", "ExitCode", 1),
        ("Never", "Never", 0),
    ],
)
def test_workers_of_an_mpijob_restart_with_the_launcher(launcher, restart, count):
    roles = {"Launcher": {"restartPolicy": launcher}}
    roles |= {"Worker": {"replicas": 2, "restartPolicy": restart}}

    document, warnings = convert(job("MPIJob", roles))

    fields = document["spec"]["roles"]["worker"]
    assert {"restartPolicy", "retryableExitCodes"} & set(fields) == set()
    assert [path for path, _ in warnings] == ["spec.mpiReplicaSpecs.Worker.restartPolicy"] * count


def test_spot_pods_have_their_priority_class_and_labels():
    spot = {"spotReplicaNumber": 2, "priorityClassName": "spot", "labels": {"a": "1"}}
    resource = job("TFJob", {"Worker": {"replicas": 2, "spotReplicaSpec": spot}})
    template = resource["spec"]["tfReplicaSpecs"]["Worker"]["template"]
    template["metadata"] = {"labels": {"a": "0", "b": "2"}}

    document, warnings = convert(resource)

    assert document["spec"]["roles"]["worker"]["template"] == {
        "metadata": {"labels": {"a": "1", "b": "2"}},
        "spec": {"priorityClassName": "spot"},
    }
    assert warnings == []


@pytest.mark.parametrize(("number", "count"), [(0, 0), (1, 1)])
def test_some_spot_pods_are_a_warning(number, count):
    spot = {"spotReplicaNumber": number, "priorityClassName": "spot"}

    document, warnings = convert(job("TFJob", {"Worker": {"replicas": 2, "spotReplicaSpec": spot}}))

    message = "KubeDL runs the last 1 of 2 replicas as spot pods; mlgen does not"
    assert "template" not in document["spec"]["roles"]["worker"]
    assert warnings == [("spec.tfReplicaSpecs.Worker.spotReplicaSpec", message)] * count


@pytest.mark.parametrize(
    ("fields", "path", "message"),
    [
        (
            {"cronPolicy": {"schedule": "@daily"}},
            "spec.cronPolicy",
            "KubeDL starts the job on this schedule; mlgen does not",
        ),
        (
            {"cacheBackend": {"mountPath": "/data"}},
            "spec.cacheBackend",
            "KubeDL caches this data with Fluid and mounts it; mlgen does not",
        ),
        (
            {"modelVersion": {"storage": {"AWSEfs": {}}}},
            "spec.modelVersion",
            "KubeDL mounts this storage and builds an image of the model; mlgen does neither",
        ),
        (
            {"modelVersion": {"storage": {"nfs": {"path": "/models"}}}},
            "spec.modelVersion",
            "KubeDL mounts this storage and builds an image of the model; mlgen does neither",
        ),
        (
            {"modelVersion": {"storage": {"localStorage": {"mountPath": "/m"}}}},
            "spec.modelVersion",
            "KubeDL mounts this storage and builds an image of the model; mlgen does neither",
        ),
    ],
)
def test_what_other_controllers_of_kubedl_do_is_a_warning(fields, path, message):
    document, warnings = convert(job("TFJob", {"Worker": {}}, **fields))

    assert warnings == [(path, message)]
    assert "volumes" not in document["spec"]["roles"]["worker"]


def test_the_priority_of_a_queue_is_a_warning():
    fields = {"schedulingPolicy": {"priority": 1, "queue": "q"}}
    pod = {"schedulerName": "volcano"}

    document, warnings = convert(job("TFJob", {"Worker": {"pod": pod}}, **fields))

    message = "KubeDL's queue starts jobs of high priority first; mlgen has no queue"
    assert document["spec"]["scheduling"] == {"gang": "volcano", "queue": "q"}
    assert warnings == [("spec.schedulingPolicy.priority", message)]


@pytest.mark.parametrize(
    ("storage", "volume"),
    [
        (
            {"nfs": {"server": "nfs", "path": "/models"}},
            {"mountPath": "/kubedl-model", "nfs": {"server": "nfs", "path": "/models"}},
        ),
        (
            {"localStorage": {"path": "/models", "mountPath": "/out", "nodeName": "a"}},
            {"mountPath": "/out", "hostPath": "/models"},
        ),
    ],
)
def test_the_storage_of_a_model_is_mounted_in_every_role(storage, volume):
    container = {"env": [{"name": "KUBEDL_MODEL_PATH", "value": "/mine"}]}
    roles = {"Chief": {}, "Worker": {"container": container}}

    document, warnings = convert(job("TFJob", roles, modelVersion={"storage": storage}))

    written = document["spec"]
    assert written["volumes"] == {"modelvolume": volume}
    assert written["roles"]["chief"]["env"] == {"KUBEDL_MODEL_PATH": volume["mountPath"]}
    assert written["roles"]["worker"]["env"] == {"KUBEDL_MODEL_PATH": "/mine"}
    message = "KubeDL builds an image of the model after training; mlgen does not"
    assert warnings == [("spec.modelVersion", message)]


def with_config(name, config, roles=None):
    return job("TFJob", roles or {"Worker": {}}, {name: json.dumps(config)})


@pytest.mark.parametrize(
    ("config", "path", "git"),
    [
        ({"source": "https://h/a/b.git"}, "/b", {}),
        ({"source": "https://h/a/b/"}, "/b", {}),
        ({"source": "h/b", "branch": "x"}, "/b", {"revision": "x"}),
        ({"source": "h/b", "branch": "x", "revision": "y"}, "/b", {"revision": "y"}),
        ({"source": "h/b", "destPath": "code"}, "/code", {}),
        ({"source": "h/b", "destPath": "/code/../app/"}, "/app", {}),
        ({"source": "h/b", "destPath": None}, "/b", {}),
    ],
)
def test_a_repository_is_cloned_into_a_volume(config, path, git):
    document, warnings = convert(with_config(GIT, config))

    volume = {"mountPath": path, "git": {"repository": config["source"]} | git}
    assert document["spec"]["volumes"] == {"git-sync": volume}
    assert "annotations" not in document["metadata"]
    assert warnings == []


def test_a_repository_is_mounted_below_the_working_directory_of_each_role():
    roles = {"Chief": {"container": {"workingDir": "/app"}}, "Worker": {}}

    spec = spec_of(with_config(GIT, {"source": "h/b"}, roles))

    assert "volumes" not in spec
    paths = {name: role["volumes"]["git-sync"]["mountPath"] for name, role in spec["roles"].items()}
    assert paths == {"chief": "/app/b", "worker": "/b"}


@pytest.mark.parametrize(
    "credential", [{"ssh": True}, {"sshFile": "/k"}, {"user": "a"}, {"password": "b"}]
)
def test_credentials_in_an_annotation_are_a_warning_that_does_not_repeat_them(credential):
    resource = with_config(GIT, {"source": "h/b"} | credential)

    document, (warning,) = dialects.native(Document(resource, marked({(): Place("job.yaml")})))

    message = "credentials in an annotation are not secret, and mlgen does not use them"
    assert warning.message == message
    assert warning.hint.endswith("--set spec.volumes.git-sync.git.secret=NAME")
    assert document.data["spec"]["volumes"]["git-sync"]["git"] == {"repository": "h/b"}


@pytest.mark.parametrize("fields", [{"image": "git:1"}, {"envs": [{"name": "A"}]}])
def test_fields_of_kubedls_git_container_are_a_warning(fields):
    _, warnings = convert(with_config(GIT, {"source": "h/b", "ssh": False} | fields))

    (name,) = fields
    message = f"{name} applies to KubeDL's own container; mlgen runs git in another image"
    assert warnings == [(f"metadata.annotations.{GIT}.{name}", message)]


def test_an_unknown_field_of_an_annotation_is_a_warning_with_a_suggestion():
    resource = with_config(GIT, {"source": "h/b", "brnch": "x"})

    _, (warning,) = dialects.native(Document(resource, marked({(): Place("job.yaml")})))

    assert warning.message == 'unknown field "brnch"; KubeDL also ignores it'
    assert warning.hint == 'did you mean "branch"?'


def test_an_annotation_that_is_not_valid_is_an_error():
    rows = [
        (GIT, "[]", "", "expected a JSON object"),
        (GIT, "null", "", "expected a JSON object"),
        (GIT, "", "", "invalid JSON: Expecting value: line 1 column 1 (char 0)"),
        (GIT, "{}", "", 'field "source" is missing'),
        (GIT, '{"source": ""}', "", 'field "source" is missing'),
        (GIT, '{"source": 1}', ".source", "expected a string, got an integer"),
        (GIT, '{"source": 1.5}', ".source", "expected a string, got a number"),
        (GIT, '{"source": "a", "ssh": "yes"}', ".ssh", "expected a boolean, got a string"),
        (GIT, '{"source": "a", "envs": {}}', ".envs", "expected a list, got an object"),
        (TENSORBOARD, '{"image": "a"}', "", 'field "logDir" is missing'),
        (TENSORBOARD, '{"logDir": []}', ".logDir", "expected a string, got a list"),
    ]

    for name, text, path, message in rows:
        resource = job("TFJob", {"Worker": {}}, {name: text})

        assert problems(resource) == [(f"metadata.annotations.{name}{path}", message)]


def test_half_of_a_surrogate_pair_is_an_error():
    ((path, message),) = problems(job("TFJob", {"Worker": {}}, {GIT: '{"source": "\\ud800"}'}))

    assert path == f"metadata.annotations.{GIT}"
    assert message.startswith("invalid JSON: ")


def mounting(*paths, **source):
    """A role with a container that mounts the volumes `v0`, `v1`, … at these paths."""
    source = source or {"persistentVolumeClaim": {"claimName": "logs"}}
    mounts = [{"name": f"v{i}", "mountPath": path} for i, path in enumerate(paths)]
    volumes = [{"name": mount["name"]} | source for mount in mounts]
    return {"container": {"volumeMounts": mounts}, "pod": {"volumes": volumes}}


@pytest.mark.parametrize(
    ("log_dir", "mounts", "name"),
    [
        ("/logs", ["/logs"], "v0"),
        ("/logs/run", ["/logs/"], "v0"),
        ("/logs/run", ["/logs", "/logs/run"], "v1"),
        ("/logs/run", ["/logs/run", "/logs"], "v0"),
    ],
)
def test_tensorboard_reads_the_volume_that_is_nearest_to_the_logs(log_dir, mounts, name):
    resource = with_config(TENSORBOARD, {"logDir": log_dir}, {"Worker": mounting(*mounts)})

    document, warnings = convert(resource)

    volume = {"mountPath": mounts[int(name[1])], "pvc": "logs"}
    assert document["spec"]["tensorboard"] == {"logDir": log_dir, "image": "example/main:1"}
    assert document["spec"]["volumes"] == {name: volume}
    others = {f"v{i}" for i in range(len(mounts))} - {name}
    assert set(document["spec"]["roles"]["worker"].get("volumes", {})) == others
    assert warnings == []


@pytest.mark.parametrize(
    ("log_dir", "role"),
    [
        ("/logs", {}),
        ("/logs", mounting("/log")),
        ("/logs", mounting("/logs/run")),
        ("/logs", mounting("/logs", emptyDir={})),
    ],
    ids=["no-volume", "prefix", "below", "emptydir"],
)
def test_without_a_shared_volume_no_tensorboard_is_rendered(log_dir, role):
    document, warnings = convert(with_config(TENSORBOARD, {"logDir": log_dir}, {"Worker": role}))

    message = "TensorBoard is not rendered, because /logs is not on a volume that it can share"
    assert "tensorboard" not in document["spec"]
    assert warnings == [(f"metadata.annotations.{TENSORBOARD}.logDir", message)]


def test_logs_in_a_bucket_need_no_volume():
    config = {"logDir": "s3://logs", "image": "tensorboard:2"}

    document, warnings = convert(with_config(TENSORBOARD, config))

    assert document["spec"]["tensorboard"] == config
    assert warnings == []


def test_a_volume_that_tensorboard_reads_is_mounted_in_all_roles():
    roles = {"Chief": mounting("/logs"), "PS": {}, "Worker": mounting("/logs")}

    document, warnings = convert(with_config(TENSORBOARD, {"logDir": "/logs"}, roles))

    message = "mlgen mounts the volume v0 of TensorBoard also in ps"
    assert document["spec"]["volumes"] == {"v0": {"mountPath": "/logs", "pvc": "logs"}}
    assert warnings == [(f"metadata.annotations.{TENSORBOARD}.logDir", message)]


def test_a_volume_of_the_same_name_in_another_role_stays():
    roles = {"Chief": mounting("/logs"), "Worker": mounting("/other")}

    spec = spec_of(with_config(TENSORBOARD, {"logDir": "/logs"}, roles))

    assert "volumes" not in spec["roles"]["chief"]
    assert spec["roles"]["worker"]["volumes"]["v0"]["mountPath"] == "/other"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (
            "ttlSecondsAfterJobFinished",
            0,
            "KubeDL deletes TensorBoard 0 s after training; mlgen keeps it",
        ),
        ("ingressSpec", {}, "KubeDL creates an Ingress for TensorBoard; mlgen does not"),
    ],
)
def test_parts_of_tensorboard_that_are_not_rendered_are_warnings(field, value, message):
    _, warnings = convert(with_config(TENSORBOARD, {"logDir": "gs://a", field: value}))

    assert warnings == [(f"metadata.annotations.{TENSORBOARD}.{field}", message)]


def test_without_a_leading_role_no_tensorboard_is_rendered():
    document, warnings = convert(with_config(TENSORBOARD, {"logDir": "gs://a"}, {"PS": {}}))

    assert "tensorboard" not in document["spec"]
    assert warnings == []
