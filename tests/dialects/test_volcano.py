"""Volcano jobs as TrainingJobs: plugins, the webhook's checks, scheduling, policies and waits."""

from copy import deepcopy

import pytest

from mlgen import dialects
from mlgen.documents.document import Document, marked
from mlgen.problems import MlgenError, Place

COMPLETES = {"event": "TaskCompleted", "action": "CompleteJob"}
ENDLESS = 2147483647


def task(name="worker", replicas=1, restart="Never", containers=("main",), pod=None, **fields):
    """A task with one container per name. If `restart` is None, the field is omitted."""
    spec = {"containers": [{"name": name, "image": "i"} for name in containers]}
    spec |= {"restartPolicy": restart} if restart else {}
    template = {"spec": spec | (pod or {})}
    return {"name": name, "replicas": replicas, "template": template} | fields


def job(*tasks, metadata=None, **spec):
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "job"} | (metadata or {}),
        "spec": {"tasks": list(tasks)} | spec,
    }


def convert(*tasks, **fields):
    """Return the TrainingJob and the warnings."""
    data = job(*tasks, **fields)
    before = deepcopy(data)
    document, warnings = dialects.native(Document(data, marked({(): Place(1, 1)})))
    assert data == before
    assert all(each.warning and each.code in ("differs", "no-effect") for each in warnings)
    return document.data, warnings


def spec_of(*tasks, **fields):
    return convert(*tasks, **fields)[0]["spec"]


def texts(problems):
    return [(".".join(map(str, item.path)), item.message, item.hint) for item in problems]


def warnings_of(*tasks, at="", **fields):
    """The warnings with paths that start with `at`. By default, all but the gang's warning."""
    warnings = [item for item in texts(convert(*tasks, **fields)[1]) if item[0].startswith(at)]
    return warnings if at else [item for item in warnings if "together or none" not in item[1]]


def errors_of(*tasks, **fields):
    with pytest.raises(MlgenError) as error:
        convert(*tasks, **fields)
    assert {item.code for item in error.value.problems if not item.warning} == {"refused"}
    return texts(item for item in error.value.problems if not item.warning)


# The document


def test_a_job_with_one_task():
    data, warnings = convert(task(), metadata={"namespace": "ns"})

    assert warnings == []
    assert data == {
        "apiVersion": "mlgen.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "job", "namespace": "ns"},
        "spec": {
            "framework": "generic",
            "options": {"addresses": False},
            "template": {"metadata": {"labels": {"volcano.sh/job-name": "job"}}},
            "roles": {
                "worker": {
                    "image": "i",
                    "mainContainer": "main",
                    "replicas": 1,
                    "restartPolicy": "Never",
                    "template": {"metadata": {"labels": {"volcano.sh/task-spec": "worker"}}},
                }
            },
        },
    }


def test_tasks_without_a_name_are_numbered():
    tasks = [task(), task()]
    for item in tasks:
        del item["name"]

    assert list(spec_of(*tasks)["roles"]) == ["default0", "default1"]


def test_a_task_without_replicas_is_a_role_without_pods():
    spec = spec_of(task("worker"), task("viewer", 0, policies=[COMPLETES]))

    assert [role["replicas"] for role in spec["roles"].values()] == [1, 0]
    assert "successPolicy" not in spec


def test_labels_of_the_template_are_kept():
    worker = task()
    worker["template"]["metadata"] = {"labels": {"team": "a"}}

    template = spec_of(worker)["roles"]["worker"]["template"]
    assert template["metadata"]["labels"] == {"team": "a", "volcano.sh/task-spec": "worker"}


@pytest.mark.parametrize(
    ("pod", "policy"),
    [
        ({}, None),
        ({"hostNetwork": False}, None),
        ({"hostNetwork": True}, "ClusterFirstWithHostNet"),
        ({"hostNetwork": True, "dnsPolicy": "Default"}, "Default"),
    ],
)
def test_pods_in_the_host_network_use_the_dns_of_the_cluster(pod, policy):
    template = spec_of(task(pod=pod))["roles"]["worker"]["template"]
    assert template.get("spec", {}).get("dnsPolicy") == policy


def test_claims_are_mounted_in_all_containers_except_init_containers():
    init = {"initContainers": [{"name": "init", "image": "i"}]}
    volume = {"mountPath": "/data", "volumeClaimName": "c"}
    spec = spec_of(task(containers=("main", "log"), pod=init), volumes=[volume])
    pod = spec["roles"]["worker"]["template"]["spec"]

    assert spec["volumes"] == {"claim-0": {"mountPath": "/data", "pvc": "c"}}
    assert pod["initContainers"] == [{"name": "init", "image": "i"}]
    mounts = [{"name": "claim-0", "mountPath": "/data"}]
    assert pod["containers"] == [{"name": "log", "image": "i", "volumeMounts": mounts}]


def test_a_claim_is_created_with_the_job_under_a_name_that_is_not_random():
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    volumes = [
        {"mountPath": "/data", "volumeClaimName": "c"},
        {"mountPath": "/logs", "volumeClaim": claim},
    ]
    spec = spec_of(task(), volumes=volumes)

    assert spec["claims"] == {"job-claim-1": claim}
    assert spec["volumes"]["claim-1"] == {"mountPath": "/logs", "pvc": "job-claim-1"}


def test_a_claim_that_a_time_to_live_would_delete_is_a_warning():
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    volumes = [{"mountPath": "/logs", "volumeClaim": claim}]

    messages = [
        text for _, text, _ in warnings_of(task(), volumes=volumes, ttlSecondsAfterFinished=9)
    ]

    message = "Volcano deletes the PersistentVolumeClaim 9 s after the job ends; mlgen keeps it"
    assert message in messages


# Plugins


def test_svc_writes_the_hosts_of_all_tasks():
    tasks = [task("a-b", 2, policies=[COMPLETES]), task("ps", 0)]
    spec = spec_of(*tasks, plugins={"svc": []})

    variables = {
        "VC_A_B_HOSTS": "job-a-b-0.job,job-a-b-1.job",
        "VC_A_B_NUM": "2",
        "VC_PS_HOSTS": "",
        "VC_PS_NUM": "0",
    }
    files = {"a_b.host": "job-a-b-0.job\njob-a-b-1.job", "ps.host": ""}
    assert spec["env"] == variables
    assert spec["volumes"] == {"svc": {"mountPath": "/etc/volcano", "files": files | variables}}


@pytest.mark.parametrize(
    "argument", ["--inject-hosts-env=false", "-inject-hosts-env=0", "--inject-hosts-env=F"]
)
def test_svc_without_variables_keeps_the_files(argument):
    spec = spec_of(task(), plugins={"svc": [argument]})

    assert "env" not in spec
    assert spec["volumes"]["svc"]["files"]["VC_WORKER_NUM"] == "1"


def test_arguments_of_svc_apply_if_another_plugin_implies_it():
    plugins = {"svc": ["--inject-hosts-env=false"], "tensorflow": []}
    assert "env" not in spec_of(task(), plugins=plugins)


def test_variables_and_mounts_of_plugins_are_in_all_containers():
    init = {"initContainers": [{"name": "init", "image": "i", "env": [{"name": "A"}]}]}
    worker = task(containers=("main", "log"), pod=init)
    spec = spec_of(worker, plugins={"env": [], "ssh": []})
    pod = spec["roles"]["worker"]["template"]["spec"]

    env = [
        {"name": "VK_TASK_INDEX", "value": "$(MLGEN_REPLICA_INDEX)"},
        {"name": "VC_TASK_INDEX", "value": "$(MLGEN_REPLICA_INDEX)"},
    ]
    mount = {"mountPath": "/root/.ssh", "subPath": ".ssh"}
    mounts = [{"name": "ssh-keys", **mount}]
    assert spec["volumes"]["ssh-keys"].items() >= mount.items()
    assert spec["env"] == {item["name"]: item["value"] for item in env}
    assert pod["containers"] == [
        {"name": "log", "image": "i", "env": env, "volumeMounts": mounts},
    ]
    assert pod["initContainers"] == [
        {"name": "init", "image": "i", "env": [{"name": "A"}, *env], "volumeMounts": mounts}
    ]


@pytest.mark.parametrize(
    ("arguments", "folder", "mode", "port"),
    [
        ([], "/root/.ssh", 0o600, 22),
        (["--ssh-key-file-path=/home/a/.ssh"], "/home/a/.ssh", 0o644, 22),
        (["--ssh-port", "2222"], "/root/.ssh", 0o600, 2222),
    ],
)
def test_ssh_mounts_keys_and_a_client_configuration(arguments, folder, mode, port):
    spec = spec_of(task(), plugins={"ssh": arguments})

    config = (
        "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
        f"Host job-worker-0\n  HostName job-worker-0.job\n  Port {port}\n"
    )
    items = [
        {"key": "ssh-privatekey", "path": ".ssh/id_rsa"},
        {"key": "ssh-publickey", "path": ".ssh/id_rsa.pub"},
        {"key": "ssh-publickey", "path": ".ssh/authorized_keys"},
    ]
    sources = [
        {"secret": {"name": "job-ssh", "items": items}},
        {"files": {"config": config}, "items": [{"key": "config", "path": ".ssh/config"}]},
    ]
    assert spec["volumes"]["ssh-keys"] == {
        "mountPath": folder,
        "subPath": ".ssh",
        "projected": {"sources": sources, "defaultMode": mode},
    }


@pytest.mark.parametrize(
    ("metadata", "option"), [({}, ""), ({"namespace": "ns"}, " -n ns")], ids=["default", "ns"]
)
def test_ssh_keys_need_a_secret(metadata, option):
    assert warnings_of(task(), plugins={"ssh": []}, metadata=metadata) == [
        (
            "spec.plugins.ssh",
            "Volcano creates the Secret job-ssh with SSH keys; mlgen does not",
            f"run mlgen ssh-secret{option} job-ssh | kubectl apply -f -",
        )
    ]


@pytest.mark.parametrize("key", ["private", "public"])
def test_ssh_keys_are_not_rendered(key):
    plugins = {"ssh": ["--ssh-port=22", f"--ssh-{key}-key=k"]}
    files = " ".join(f"--from-file=ssh-{name}key=…" for name in ("private", "public"))
    assert warnings_of(task(), plugins=plugins) == [
        (
            "spec.plugins.ssh.1",
            "mlgen renders no SSH keys; the pods use the keys in the Secret job-ssh",
            f"run kubectl create secret generic job-ssh {files}",
        )
    ]


def test_tensorflow_is_the_framework():
    tasks = [task("ps", restart=None), task("worker", 2, policies=[COMPLETES])]
    spec = spec_of(*tasks, plugins={"tensorflow": ["--port=3333"]})

    assert (spec["framework"], spec["port"]) == ("tensorflow", 3333)
    assert "options" not in spec
    assert spec["successPolicy"] == {"replicas": "All"}
    assert spec["roles"]["ps"]["restartPolicy"] == "Always"
    assert spec["volumes"]["svc"]["files"]["worker.host"] == "job-worker-0.job\njob-worker-1.job"


def test_pytorch_is_the_framework():
    tasks = [task("master"), task("worker", 2)]
    arguments = ["--wait-master-enabled", "--wait-master-timeout", "60", "--wait-master-image=b"]
    spec = spec_of(*tasks, plugins={"pytorch": arguments})

    assert spec["framework"] == "pytorch"
    assert "port" not in spec
    assert spec["wait"] == {"timeoutSeconds": 60}
    assert spec["helpers"] == {"waitImage": "b"}


def test_the_framework_of_a_plugin():
    rows = [
        ("tensorflow", [task("board")], "generic"),
        ("tensorflow", [task("worker")], "tensorflow"),
        ("pytorch", [task("board", 3)], "generic"),
        ("pytorch", [task("worker")], "pytorch"),
        ("mpi", [task("master"), task("worker")], "generic"),
    ]

    assert [spec_of(*tasks, plugins={plugin: []})["framework"] for plugin, tasks, _ in rows] == [
        framework for _, _, framework in rows
    ]


def test_a_task_of_a_framework_gets_the_name_of_its_role():
    tasks = [task("master"), task("trainer", 2)]
    data, warnings = convert(*tasks, plugins={"pytorch": ["--worker=trainer"]})

    assert list(data["spec"]["roles"]) == ["master", "worker"]
    assert data["spec"]["env"]["VC_TRAINER_HOSTS"] == "job-worker-0.job,job-worker-1.job"
    assert texts(warnings)[0] == (
        "spec.tasks.1.name",
        "Volcano names the pods job-trainer-<i>; mlgen names them job-worker-<i>",
        "change the names in commands",
    )


def test_only_the_first_container_gets_the_variables_of_a_framework():
    warnings = warnings_of(task("master", containers=("main", "log")), plugins={"pytorch": []})
    assert warnings == [
        (
            "spec.tasks.0.template.spec.containers",
            "Volcano sets the variables of pytorch in all containers; mlgen sets them in main only",
            "",
        )
    ]


def test_mpi_names_the_workers_and_waits_for_them():
    tasks = [task("master"), task("worker", 2)]
    spec = spec_of(*tasks, plugins={"mpi": ["--port=2222"]})
    master, worker = spec["roles"]["master"], spec["roles"]["worker"]

    assert master["env"] == {"MPI_HOST": "job-worker-0.job,job-worker-1.job"}
    assert master["waitFor"] == [{"role": "worker"}]
    assert (worker["port"], worker.get("env"), worker.get("waitFor")) == (2222, None, None)
    assert set(spec["volumes"]) == {"svc", "ssh-keys", "mpi-hostfile"}


@pytest.mark.parametrize(
    ("container", "text"),
    [
        ({}, "job-worker-0.job\njob-worker-1.job\n"),
        (
            {"resources": {"limits": {"nvidia.com/gpu": 4}}},
            "job-worker-0.job slots=4\njob-worker-1.job slots=4\n",
        ),
        ({"volumeMounts": [{"name": "own", "mountPath": "/etc/mpi"}]}, None),
    ],
)
def test_mpi_adds_open_mpi_s_default_hostfile_unless_the_user_has_one(container, text):
    worker = task("worker", 2)
    worker["template"]["spec"]["containers"][0].update(container)

    spec = spec_of(task("master"), worker, plugins={"mpi": []})

    files = spec["volumes"].get("mpi-hostfile", {}).get("files", {})
    assert files.get("hostfile") == text
    path = spec["env"].get("OMPI_MCA_orte_default_hostfile")
    assert path == spec["env"].get("PRTE_MCA_prte_default_hostfile")
    assert path == ("/etc/mpi/hostfile" if text else None)


@pytest.mark.parametrize(
    ("command", "slots", "hosts"),
    [
        ("mpirun -np 12 python t.py", 4, ""),
        ("mpirun -np 2 python t.py", 1, ""),
        ("mpirun --allow-run-as-root -n 7 python t.py", 3, ""),
        ("mpiexec -np 12 -H $MPI_HOST python t.py", 4, ":4"),
        ("mpiexec -np 3 -H $MPI_HOST python t.py", 1, ""),
        ("echo $MPI_HOST; mpiexec -np 12 -H $MPI_HOST python t.py", 4, ""),
        ("mpirun -np $N python t.py", None, ""),
    ],
)
def test_the_slots_of_mpi_follow_from_the_number_of_processes(command, slots, hosts):
    master = task("master")
    master["template"]["spec"]["containers"][0]["command"] = ["sh", "-c", command]

    spec = spec_of(master, task("worker", 3), plugins={"mpi": []})

    names = [f"job-worker-{i}.job" for i in range(3)]
    text = "".join(f"{name} slots={slots}\n" if slots else f"{name}\n" for name in names)
    assert spec["volumes"]["mpi-hostfile"]["files"]["hostfile"] == text
    assert spec["roles"]["master"]["env"]["MPI_HOST"] == ",".join(name + hosts for name in names)


@pytest.mark.parametrize("restart", [None, "OnFailure", "Never"])
def test_the_end_of_the_mpi_master_stops_the_workers(restart):
    tasks = [task("master"), task("worker", 2, restart=restart)]

    data, warnings = convert(*tasks, plugins={"mpi": []})

    assert data["spec"]["runPolicy"]["cleanPodPolicy"] == "Running"
    assert data["spec"]["successPolicy"] == {"role": "master"}
    assert not [warning for warning in warnings if "all tasks have finished" in warning.message]


def test_another_task_next_to_mpi_also_ends_by_itself():
    tasks = [task("master"), task("worker", 2), task("eval")]

    data, warnings = convert(*tasks, plugins={"mpi": []})

    assert "cleanPodPolicy" not in data["spec"].get("runPolicy", {})
    assert [warning for warning in warnings if "all tasks have finished" in warning.message]


@pytest.mark.parametrize(
    ("name", "arguments"), [("ps", []), ("shard", ["--ps=shard"]), ("shard", ["--server=shard"])]
)
def test_the_servers_of_mxnet_can_be_called_ps(name, arguments):
    tasks = [task("scheduler"), task(name, 2), task("worker", 2)]

    spec = spec_of(*tasks, plugins={"mxnet": arguments})

    assert list(spec["roles"]) == ["scheduler", "server", "worker"]


def test_ray_starts_a_head_and_workers_that_wait_for_it():
    tasks = [task("head", containers=("log", "head")), task("worker", 2, containers=("worker",))]
    spec = spec_of(*tasks, plugins={"ray": ["--port=1", "--dashboardPort=2", "--clientPort=3"]})
    head, worker = spec["roles"]["head"], spec["roles"]["worker"]

    assert head["command"] == [
        "sh",
        "-c",
        (
            "ray start --head --block --dashboard-host=0.0.0.0 --port=1 --dashboard-port=2"
            " --ray-client-server-port=3"
        ),
    ]
    assert (head["mainContainer"], head["port"]) == ("head", 1)
    assert head["template"]["spec"]["containers"][0]["ports"] == [
        {"name": "dashboard", "containerPort": 2},
        {"name": "client-server", "containerPort": 3},
    ]
    assert worker["command"] == ["sh", "-c", "ray start --block --address=job-head-0.job:1"]
    assert worker["waitFor"] == [{"role": "head"}]
    assert "port" not in worker


def test_ray_ports_that_the_head_declares_are_not_repeated():
    head = task("head", containers=("head",))
    head["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": 8265}]
    (container,) = spec_of(head, plugins={"ray": []})["roles"]["head"]["template"]["spec"][
        "containers"
    ]

    assert container["ports"] == [
        {"containerPort": 8265},
        {"name": "client-server", "containerPort": 10001},
    ]


def test_ray_does_not_start_in_containers_of_other_names():
    spec = spec_of(task("head"), plugins={"ray": []})
    assert "command" not in spec["roles"]["head"]


@pytest.mark.parametrize(
    ("tasks", "workload"),
    [
        ([task("head")], "job"),
        ([task("head", restart="Always"), task("submit", policies=[COMPLETES])], "statefulset"),
    ],
)
def test_there_is_no_service_of_the_ray_head(tasks, workload):
    assert warnings_of(*tasks, plugins={"ray": []}, at="spec.plugins") == [
        (
            "spec.plugins.ray",
            "Volcano creates the Service job-head-svc for the head; mlgen does not",
            f"to reach the dashboard, run kubectl port-forward {workload}/job-head 8265",
        )
    ]


def test_hcclrank_is_not_rendered():
    assert warnings_of(task(), plugins={"hcclrank": []}) == [
        (
            "spec.plugins.hcclrank",
            "Volcano annotates each pod with its rank, hccl/rankIndex; mlgen does not",
            "use the variable RANK, or write $(MLGEN_REPLICA_INDEX) in the command",
        )
    ]


def test_invalid_plugins_are_errors():
    rows = [
        (
            {"pytroch": []},
            "spec.plugins.pytroch",
            'unknown plugin "pytroch"',
            'did you mean "pytorch"?',
        ),
        (
            {"x": []},
            "spec.plugins.x",
            'unknown plugin "x"',
            "use one of: env, svc, ssh, tensorflow, pytorch, mxnet, mpi, ray, hcclrank",
        ),
        (
            {"tensorflow": [], "pytorch": []},
            "spec.plugins.pytorch",
            "tensorflow and pytorch are mutually exclusive",
            "remove one of the plugins",
        ),
        (
            {"mpi": ["--master=worker", "--worker=wrker"]},
            "spec.plugins.mpi.1",
            'the plugin mpi needs a task "wrker" with replicas',
            'did you mean "worker"?',
        ),
        (
            {"ray": []},
            "spec.plugins.ray",
            'the plugin ray needs a task "head" with replicas',
            "the tasks are: worker",
        ),
    ]

    for plugins, path, message, hint in rows:
        tasks = [task("worker"), task("wrker", 0)]
        assert (path, message, hint) in errors_of(*tasks, plugins=plugins)


def test_invalid_arguments_of_plugins_are_ignored_with_all_that_follow():
    rows = [
        (
            {"ssh": ["--ssh-prt=1"]},
            "spec.plugins.ssh.0",
            "unknown argument --ssh-prt=1: plugin ssh ignores this argument and all that follow",
            'did you mean "--ssh-port"?',
        ),
        (
            {"mpi": ["--x"]},
            "spec.plugins.mpi.0",
            "unknown argument --x: plugin mpi ignores this argument and all that follow",
            "use one of: --master, --worker, --port",
        ),
        (
            {"env": ["--x"]},
            "spec.plugins.env.0",
            "unknown argument --x: plugin env ignores this argument and all that follow",
            "remove it: this plugin has no arguments",
        ),
        (
            {"ssh": ["ssh-port=1"]},
            "spec.plugins.ssh.0",
            "unknown argument ssh-port=1: plugin ssh ignores this argument and all that follow",
            'did you mean "--ssh-port"?',
        ),
        (
            {"ssh": ["--ssh-port", "-1"]},
            "spec.plugins.ssh.0",
            (
                'expected a non-negative integer for ssh-port, got "-1": '
                "plugin ssh ignores this argument and all that follow"
            ),
            "write a value such as --ssh-port=22",
        ),
        (
            {"ssh": ["--ssh-port"]},
            "spec.plugins.ssh.0",
            (
                'expected a non-negative integer for ssh-port, got "": '
                "plugin ssh ignores this argument and all that follow"
            ),
            "write a value such as --ssh-port=22",
        ),
        (
            {"svc": ["--inject-hosts-env=yes"]},
            "spec.plugins.svc.0",
            (
                'expected true or false for inject-hosts-env, got "yes": '
                "plugin svc ignores this argument and all that follow"
            ),
            "write a value such as --inject-hosts-env=true",
        ),
    ]

    for plugins, path, message, hint in rows:
        tasks = [task("master"), task("worker")]
        assert (path, message, hint) in warnings_of(*tasks, plugins=plugins)
    ports = [["--port=23"], ["--x", "--port=23"], ["--port=23", "--x"]]
    pair = [task("master"), task("worker")]
    jobs = [convert(*pair, plugins={"pytorch": each})[0]["spec"] for each in ports]
    assert [job["roles"]["master"].get("port") or job.get("port") for job in jobs] == [23, None, 23]


ROLES = "chief, ps, worker, evaluator"


@pytest.mark.parametrize("tasks", [[task("board"), task()], [task("board", 2)]])
def test_a_task_without_a_role_is_an_error(tasks):
    assert errors_of(*tasks, plugins={"tensorflow": []}) == [
        (
            "spec.tasks.0",
            f"the plugin tensorflow has no role for the task board, only for {ROLES}",
            (
                "write the name of the task in the arguments of the plugin, "
                "move the task to a separate job, or remove the plugin"
            ),
        )
    ]


# Checks of the webhook


@pytest.mark.parametrize(
    ("policies", "path", "message", "hint"),
    [
        (
            [{"action": "AbortJob"}],
            "0",
            "expected either an event or an exit code, got neither",
            "write only one of event, events and exitCode",
        ),
        (
            [{"event": "PodFailed", "exitCode": 1, "action": "AbortJob"}],
            "0",
            "expected either an event or an exit code, got both",
            "write only one of event, events and exitCode",
        ),
        (
            [
                {"event": "PodFailed", "action": "AbortJob"},
                {"events": ["TaskFailed", "PodFailed"], "action": "RestartJob"},
            ],
            "1",
            "duplicate policy for PodFailed",
            "remove one of them",
        ),
        (
            [{"events": ["*", "PodFailed"], "action": "AbortJob"}],
            "0",
            '"*" and other events are mutually exclusive',
            'remove "*" or the other events',
        ),
        (
            [{"event": "*", "action": "AbortJob"}, {"event": "Unknown", "action": "AbortJob"}],
            "1",
            '"*" and other events are mutually exclusive',
            'remove "*" or the other events',
        ),
        (
            [{"exitCode": 0, "action": "AbortJob"}],
            "0.exitCode",
            "exit code 0 means success",
            "write the exit code of a failure, 1 to 255",
        ),
        (
            [{"exitCode": 3, "action": "AbortJob"}, {"exitCode": 3, "action": "RestartJob"}],
            "1.exitCode",
            "duplicate policy for exit code 3",
            "remove one of them",
        ),
    ],
)
def test_invalid_policies_of_jobs_and_tasks_are_errors(policies, path, message, hint):
    assert errors_of(task(), policies=policies) == [(f"spec.policies.{path}", message, hint)]
    assert errors_of(task(), task("b", policies=policies)) == [
        (f"spec.tasks.1.policies.{path}", message, hint)
    ]


NAME_HINT = (
    "use lowercase letters, digits and dashes; start with a letter, and do not end with a dash"
)
RESERVED = "is reserved: peers find a pod by its hostname and subdomain"


def test_invalid_tasks_are_errors():
    rows = [
        ({"name": "1st"}, "name", 'invalid task name "1st"', NAME_HINT),
        ({"name": "a-"}, "name", 'invalid task name "a-"', NAME_HINT),
        ({"name": "A"}, "name", 'invalid task name "A"', NAME_HINT),
        (
            {"minAvailable": 3},
            "minAvailable",
            "3 is more than the 2 replicas of worker",
            "write at most 2",
        ),
        ({"pod": {"hostname": "h"}}, "template.spec.hostname", f"hostname {RESERVED}", "remove it"),
        (
            {"pod": {"subdomain": "s"}},
            "template.spec.subdomain",
            f"subdomain {RESERVED}",
            "remove it",
        ),
        (
            {"restart": "Sometimes"},
            "template.spec.restartPolicy",
            'unknown restartPolicy "Sometimes"',
            "use one of: Always, OnFailure, Never",
        ),
        (
            {"partitionPolicy": {"totalPartitions": 3, "partitionSize": 1}},
            "partitionPolicy",
            "totalPartitions * partitionSize is 3, but worker has 2 replicas",
            "make the two numbers equal",
        ),
        (
            {"dependsOn": {"name": ["wrker"]}},
            "dependsOn.name.0",
            'unknown task "wrker"',
            'did you mean "worker"?',
        ),
        (
            {"dependsOn": {"name": ["x"]}},
            "dependsOn.name.0",
            'unknown task "x"',
            "the tasks are: worker",
        ),
        (
            {"dependsOn": {"name": ["worker"]}},
            "dependsOn",
            "these tasks wait for each other: worker → worker",
            "remove one of the dependencies",
        ),
    ]

    assert [errors_of(task(**({"replicas": 2} | fields))) for fields, _, _, _ in rows] == [
        ([(f"spec.tasks.0.{path}", message, hint)]) for _, path, message, hint in rows
    ]


def test_valid_names_of_tasks():
    rows = ["a", "a1", "a-1", "a--b"]

    assert [list(spec_of(task(name))["roles"]) for name in rows] == [[name] for name in rows]


def test_names_of_tasks_are_unique():
    assert errors_of(task(), task()) == [
        ("spec.tasks.1.name", 'duplicate task name "worker"', "rename one of the tasks")
    ]


def test_a_cycle_is_reported_at_its_first_task():
    tasks = [
        task("a", dependsOn={"name": ["c"]}),
        task("b", dependsOn={"name": ["a"]}),
        task("c", dependsOn={"name": ["b"]}),
    ]
    assert errors_of(*tasks) == [
        (
            "spec.tasks.0.dependsOn",
            "these tasks wait for each other: a → c → b → a",
            "remove one of the dependencies",
        )
    ]


def test_a_job_needs_replicas():
    assert errors_of(task(replicas=0), task("b", 0), minAvailable=1) == [
        ("spec.minAvailable", "1 is more than the 0 replicas of all tasks", "write at most 0"),
        ("spec.tasks", "all tasks have 0 replicas", "set replicas of at least one task"),
    ]


def test_min_available_is_at_most_the_sum_of_replicas():
    tasks = [task(replicas=2), task("b", 1)]

    assert spec_of(*tasks, minAvailable=3)
    assert errors_of(*tasks, minAvailable=4) == [
        ("spec.minAvailable", "4 is more than the 3 replicas of all tasks", "write at most 3")
    ]


@pytest.mark.parametrize(
    ("volumes", "path", "message", "hint"),
    [
        (
            [{"mountPath": "/a"}],
            "0",
            "volumeClaimName is missing",
            "write the name of an existing PersistentVolumeClaim",
        ),
        (
            [{"mountPath": "/a", "volumeClaimName": "c", "volumeClaim": {}}],
            "0",
            "volumeClaimName and volumeClaim are mutually exclusive",
            "keep volumeClaimName",
        ),
        (
            [{"mountPath": "/a", "volumeClaimName": name} for name in ("c", "d")],
            "1.mountPath",
            "duplicate mountPath /a",
            "change the mountPath of one of the two volumes",
        ),
    ],
)
def test_invalid_volumes_are_errors(volumes, path, message, hint):
    assert errors_of(task(), volumes=volumes) == [(f"spec.volumes.{path}", message, hint)]


# Scheduling

IGNORES = "default-scheduler ignores the queue"
EACH_POD = "Kubernetes starts each pod as soon as it fits"
RACKS = (
    "pass the node label of your racks, as in --set"
    " 'spec.scheduling.topology={{key: topology.kubernetes.io/zone, mode: {}}}'"
)
ALL_TASKS = "mlgen's minMember counts pods of all tasks"


def scheduling(*tasks, **spec):
    return spec_of(*tasks, **spec).get("scheduling")


def test_a_gang_needs_a_scheduler_or_a_queue():
    rows = [
        ({}, None),
        ({"schedulerName": "", "queue": ""}, None),
        ({"schedulerName": "default-scheduler", "queue": "q"}, None),
        ({"schedulerName": "volcano"}, {"gang": "volcano"}),
        ({"schedulerName": "x"}, {"gang": "volcano", "schedulerName": "x"}),
        ({"queue": "q"}, {"gang": "volcano", "queue": "q"}),
        (
            {"queue": "q", "priorityClassName": "p"},
            {"gang": "volcano", "queue": "q", "priorityClassName": "p"},
        ),
        ({"priorityClassName": "p"}, {"priorityClassName": "p"}),
    ]

    assert [scheduling(task(), **spec) for spec, _ in rows] == [expected for _, expected in rows]


@pytest.mark.parametrize(
    ("spec", "least", "expected"),
    [
        ({}, None, None),
        ({}, 1, 2),
        ({}, 0, 1),
        ({"minAvailable": 0}, 1, 2),
        ({"minAvailable": 1}, None, 1),
        ({"minAvailable": 3}, None, None),
    ],
)
def test_the_size_of_a_gang(spec, least, expected):
    tasks = [task(replicas=2), task("b")]
    tasks[0] |= {} if least is None else {"minAvailable": least}

    assert scheduling(*tasks, queue="q", **spec).get("minMember") == expected


def test_a_gang_has_at_least_one_member():
    assert scheduling(task(minAvailable=0), queue="q")["minMember"] == 1


def test_the_scheduler_of_a_template_forms_the_gang():
    worker = task(pod={"schedulerName": "volcano"})
    spec = spec_of(worker)

    assert spec["scheduling"] == {"gang": "volcano"}
    assert "spec" not in spec["roles"]["worker"]["template"]


def test_what_the_rendered_job_needs_or_lacks_to_be_scheduled():
    rows = [
        (
            {"schedulerName": "volcano"},
            (
                "spec.schedulerName",
                "without the scheduler volcano, the pods stay Pending",
                "if it is not installed, pass --set 'spec.scheduling={gang: none}'",
            ),
        ),
        (
            {"queue": "q", "priorityClassName": "p"},
            (
                "spec.queue",
                "without the scheduler volcano, the pods stay Pending",
                (
                    "if it is not installed, pass"
                    " --set 'spec.scheduling={gang: none, priorityClassName: p}'"
                ),
            ),
        ),
        (
            {"schedulerName": "default-scheduler", "queue": "q"},
            ("spec.queue", f"Volcano holds the job until its queue has capacity; {IGNORES}", ""),
        ),
        (
            {},
            (
                "spec.tasks",
                f"Volcano starts all 3 pods together or none; {EACH_POD}",
                "if Volcano is installed, pass --set spec.scheduling.gang=volcano",
            ),
        ),
        (
            {"minAvailable": 2, "minSuccess": 3},
            (
                "spec.minAvailable",
                f"Volcano starts 2 of the 3 pods together or none; {EACH_POD}",
                "if Volcano is installed, pass --set spec.scheduling.gang=volcano",
            ),
        ),
        (
            {"schedulerName": "default-scheduler", "networkTopology": {"mode": "hard"}},
            (
                "spec.networkTopology",
                "Volcano places all pods under one HyperNode; mlgen does not",
                RACKS.format("required"),
            ),
        ),
        (
            {"schedulerName": "default-scheduler", "networkTopology": {"mode": "soft"}},
            (
                "spec.networkTopology",
                "Volcano places all pods under one HyperNode; mlgen does not",
                RACKS.format("preferred"),
            ),
        ),
    ]

    assert [warnings_of(task(replicas=3), at="spec", **spec) for spec, _ in rows] == [
        [expected] for _, expected in rows
    ]


def test_one_pod_is_no_gang():
    assert convert(task())[1] == []


@pytest.mark.parametrize(
    ("fields", "spec", "expected"),
    [
        ({"topologyPolicy": "none"}, {}, []),
        (
            {"topologyPolicy": "restricted"},
            {},
            [
                (
                    "spec.tasks.0.topologyPolicy",
                    "only Volcano's scheduler considers NUMA nodes when it places pods",
                    "use the kubelet's Topology Manager",
                )
            ],
        ),
        ({"topologyPolicy": "restricted"}, {"queue": "q"}, []),
        (
            {"partitionPolicy": {"totalPartitions": 1, "partitionSize": 2}},
            {},
            [
                (
                    "spec.tasks.0.partitionPolicy",
                    "Volcano places 1 partitions of 2 pods each; mlgen ignores partitions",
                    "",
                )
            ],
        ),
        ({"minAvailable": 1}, {}, []),
        ({"minAvailable": 2}, {"queue": "q"}, []),
        (
            {"minAvailable": 1},
            {"queue": "q"},
            [
                (
                    "spec.tasks.0.minAvailable",
                    f"Volcano needs 1 pods of worker to start; {ALL_TASKS}",
                    "",
                )
            ],
        ),
    ],
)
def test_placement_of_the_pods_of_a_task(fields, spec, expected):
    tasks = [task(replicas=2, policies=[COMPLETES], **fields), task("b")]
    assert warnings_of(*tasks, at="spec.tasks.0", **spec) == expected


def test_pods_of_a_gang_inherit_what_the_scheduler_reads():
    metadata = {
        "labels": {"volcano.sh/preemptable": "true", "team": "a"},
        "annotations": {"volcano.sh/revocable-zone": "*", "note": "b"},
    }
    spec = spec_of(task(topologyPolicy="restricted"), metadata=metadata, queue="q")

    assert spec["template"]["metadata"] == {
        "labels": {"volcano.sh/job-name": "job", "volcano.sh/preemptable": "true"},
        "annotations": {"volcano.sh/revocable-zone": "*"},
    }
    annotations = spec["roles"]["worker"]["template"]["metadata"]["annotations"]
    assert annotations == {"volcano.sh/numa-topology-policy": "restricted"}


def test_pods_without_a_gang_inherit_nothing():
    metadata = {"labels": {"volcano.sh/preemptable": "true"}}
    worker = task(topologyPolicy="none", pod={"schedulerName": "default-scheduler"})
    spec = spec_of(worker, metadata=metadata)

    assert spec["template"]["metadata"]["labels"] == {"volcano.sh/job-name": "job"}
    assert spec["roles"]["worker"]["template"]["spec"] == {"schedulerName": "default-scheduler"}
    assert "annotations" not in spec["roles"]["worker"]["template"]["metadata"]


# The deciding task


def test_the_task_that_decides():
    rows = [
        ([task("a"), task("b", policies=[COMPLETES])], [], "b"),
        ([task("chief"), task("b", policies=[COMPLETES])], [], "b"),
        ([task("worker"), task("master")], ["mpi"], "master"),
        ([task("worker"), task("head")], ["ray"], "head"),
        ([task("worker"), task("my-head")], [], "my-head"),
        ([task("my-head"), task("launcher")], [], "launcher"),
        ([task("a"), task("b", dependsOn={"name": ["a"]})], [], "b"),
        ([task("a", restart="Always"), task("b")], [], "b"),
        ([task("a", restart=None), task("b", restart="Always")], [], "a"),
        ([task("chief", restart="Always"), task("b")], [], "b"),
        ([task("a", restart="Always"), task("worker-b", restart=None)], [], "worker-b"),
    ]

    for tasks, plugins, decider in rows:
        spec = spec_of(*tasks, plugins={name: [] for name in plugins})
        assert spec["successPolicy"] == {"role": decider}


def test_tasks_that_decide_together():
    rows = [
        ([task("a"), task("b")], {}, {"roles": ["a", "b"]}),
        ([task("worker-a"), task("worker-b")], {}, {"roles": ["worker-a", "worker-b"]}),
        ([task("a"), task("b")], {"minSuccess": 2}, {"role": "a"}),
        (
            [task("a"), task("b")],
            {"policies": [COMPLETES]},
            {"roles": ["a", "b"], "operator": "Any"},
        ),
        (
            [task("a", policies=[COMPLETES]), task("b", policies=[COMPLETES]), task("c")],
            {},
            {"roles": ["a", "b"], "operator": "Any"},
        ),
        (
            [task("chief", policies=[COMPLETES]), task("worker", 2, policies=[COMPLETES])],
            {"plugins": {"tensorflow": []}},
            {"roles": ["chief", "worker"], "operator": "Any"},
        ),
        (
            [task("master", policies=[COMPLETES]), task("worker", policies=[COMPLETES])],
            {"plugins": {"pytorch": []}},
            None,
        ),
    ]

    assert [spec_of(*tasks, **fields).get("successPolicy") for tasks, fields, _ in rows] == [
        expected for _, _, expected in rows
    ]


def test_nothing_is_guessed_if_all_tasks_decide():
    assert warnings_of(task("a"), task("b")) == []


def test_several_tasks_that_are_guessed():
    tasks = [task("a"), task("b"), task("store", restart="Always")]
    (warning,) = warnings_of(*tasks)

    assert warning[1].endswith("mlgen ends it when a and b have")
    assert warning[2].endswith("to the deciding task")
    assert warnings_of(*tasks[:2], minSuccess=1)[0][2] == warning[2]


@pytest.mark.parametrize(
    ("tasks", "spec", "decider"),
    [
        ([task("a"), task("worker")], {}, "worker"),
        ([task("a"), task("worker")], {"policies": [COMPLETES]}, None),
        ([task("a"), task("worker", policies=[COMPLETES])], {}, None),
        (
            [
                task("a"),
                task("worker", policies=[{"event": "TaskCompleted", "action": "RestartJob"}]),
            ],
            {"policies": [COMPLETES]},
            "worker",
        ),
    ],
)
def test_a_guessed_decider_is_a_warning(tasks, spec, decider):
    guess = (
        "spec.tasks",
        f"Volcano ends the job when all tasks have finished; mlgen ends it when {decider} has",
        (
            "add policies: [{event: TaskCompleted, action: CompleteJob}] to the deciding task,"
            " or, if all tasks complete, pass"
            " --set 'spec.successPolicy={roles: [a, worker]}'"
        ),
    )
    assert (guess in warnings_of(*tasks, **spec)) == (decider is not None)


def test_the_job_s_own_policy_does_not_choose_the_decider():
    assert spec_of(task("a"), task("worker"), policies=[COMPLETES])["successPolicy"] == {
        "role": "worker"
    }


def test_pytorch_decides_by_its_master():
    tasks = [task("head"), task("worker", policies=[COMPLETES])]
    data, warnings = convert(*tasks, plugins={"pytorch": ["--master=head"]})

    assert "successPolicy" not in data["spec"]
    assert (
        "spec.tasks.1.policies.0",
        "Volcano completes the job when worker completes; mlgen completes it when master does",
        "move this policy to the task head",
    ) in texts(warnings)


@pytest.mark.parametrize(
    ("replicas", "expected"), [(1, None), (2, {"replicas": "All"})], ids=["one", "two"]
)
def test_all_workers_of_tensorflow_must_succeed(replicas, expected):
    tasks = [task("ps"), task("worker", replicas, policies=[COMPLETES])]
    assert spec_of(*tasks, plugins={"tensorflow": []}).get("successPolicy") == expected


@pytest.mark.parametrize(
    ("restart", "policy", "warned"),
    [
        ("Always", "OnFailure", True),
        (None, "OnFailure", False),
        ("OnFailure", "OnFailure", False),
        ("Never", "Never", False),
    ],
)
def test_the_decider_does_not_restart_after_success(restart, policy, warned):
    data, warnings = convert(task(restart=restart))

    assert data["spec"]["roles"]["worker"]["restartPolicy"] == policy
    assert texts(warnings) == [
        (
            "spec.tasks.0.template.spec.restartPolicy",
            "Volcano restarts worker even after success; mlgen does not",
            "write restartPolicy: OnFailure",
        )
    ] * int(warned)


def test_other_tasks_may_always_restart():
    spec = spec_of(task("a", policies=[COMPLETES]), task("b", restart="Always"))
    assert spec["roles"]["b"]["restartPolicy"] == "Always"


# Success and cleanup


@pytest.mark.parametrize(
    ("tasks", "least", "policy"),
    [
        ([task(replicas=3)], 2, {"replicas": 2}),
        ([task(replicas=3)], 3, {"replicas": 3}),
        ([task(replicas=3, policies=[COMPLETES]), task("b")], 2, {"role": "worker", "replicas": 2}),
        ([task(replicas=3, policies=[COMPLETES]), task("b")], 3, {"role": "worker"}),
    ],
)
def test_min_success(tasks, least, policy):
    spec = spec_of(*tasks, minSuccess=least)

    assert spec["successPolicy"] == policy
    assert "maxFailedIndexes" not in spec["roles"]["worker"]


def test_min_success_counts_replicas_of_the_decider():
    tasks = [task(replicas=3, policies=[COMPLETES]), task("b")]

    assert warnings_of(task(replicas=3), minSuccess=2) == []
    assert warnings_of(*tasks, minSuccess=2) == [
        (
            "spec.minSuccess",
            "Volcano counts successful pods of all tasks; mlgen counts only pods of worker",
            "",
        )
    ]


TOLERANT = {"backoffLimitPerIndex": 0, "maxFailedIndexes": 1}


@pytest.mark.parametrize(
    ("fields", "spec", "expected"),
    [
        ({}, {"minAvailable": 2}, TOLERANT),
        ({"minAvailable": 2}, {}, TOLERANT),
        ({}, {"minAvailable": 3}, {}),
        ({"restart": "OnFailure"}, {"minAvailable": 2}, {}),
        ({"policies": [{"event": "PodFailed", "action": "AbortJob"}]}, {"minAvailable": 2}, {}),
        ({"policies": [{"exitCode": 3, "action": "RestartTask"}]}, {"minAvailable": 2}, {}),
    ],
)
def test_min_available_tolerates_failures_in_a_job_of_one_task(fields, spec, expected):
    role = spec_of(task(replicas=3, **fields), **spec)["roles"]["worker"]
    assert {name: role[name] for name in TOLERANT if name in role} == expected


def test_tolerated_failures_fail_the_job_in_the_end():
    completes = "Volcano completes the job when 2 of 3 pods have succeeded, even if the others fail"
    at_once = "to complete the job as soon as 2 pods have succeeded"
    assert warnings_of(task(replicas=3), minAvailable=2) == [
        (
            "spec.minAvailable",
            f"{completes}; with mlgen, a failed replica fails the job",
            f"{at_once}, pass --set spec.successPolicy.replicas=2",
        )
    ]


def test_cleanup():
    rows = [
        ([task(policies=[COMPLETES])], {}, {}),
        ([task(policies=[COMPLETES]), task("b")], {}, {"cleanPodPolicy": "Running"}),
        ([task(), task("b")], {"minSuccess": 1}, {"cleanPodPolicy": "Running"}),
        ([task(), task("b")], {}, {}),
        ([task("a"), task("b")], {}, {}),
        ([task("a"), task("b")], {"policies": [COMPLETES]}, {"cleanPodPolicy": "Running"}),
        ([task()], {"ttlSecondsAfterFinished": 9}, {"ttlSecondsAfterFinished": 9}),
    ]

    assert [spec_of(*tasks, **spec).get("runPolicy", {}) for tasks, spec, _ in rows] == [
        expected for _, _, expected in rows
    ]


# Restarts


def on(event, action="RestartPod"):
    return {"event": event, "action": action}


def test_restarts_of_failed_replicas():
    rows = [
        ({}, {}, {"restartPolicy": "Never"}, {}),
        ({"policies": [on("PodFailed")]}, {}, {"restartPolicy": "Never", "backoffLimit": 3}, {}),
        (
            {"policies": [on("PodFailed")]},
            {"maxRetry": 7},
            {"restartPolicy": "Never", "backoffLimit": 7},
            {},
        ),
        ({"policies": [on("PodFailed", "AbortJob")]}, {}, {"restartPolicy": "Never"}, {}),
        (
            {
                "policies": [
                    {"exitCode": code, "action": "RestartTask"} for code in (9, 1, 255, 256)
                ]
            },
            {"maxRetry": 0},
            {"restartPolicy": "ExitCode", "retryableExitCodes": [1, 9, 255]},
            {"backoffLimit": 3},
        ),
        (
            {"policies": [{"exitCode": 3, "action": "AbortJob"}]},
            {"policies": [{"exitCode": 3, "action": "RestartTask"}]},
            {"restartPolicy": "Never"},
            {},
        ),
        (
            {"policies": [on("PodFailed", "AbortJob"), {"exitCode": 3, "action": "RestartTask"}]},
            {},
            {"restartPolicy": "Never"},
            {},
        ),
        ({"restart": "OnFailure"}, {}, {"restartPolicy": "OnFailure"}, {"backoffLimit": ENDLESS}),
        (
            {"restart": "OnFailure", "policies": [on("TaskFailed", "AbortJob")], "maxRetry": 5},
            {},
            {"restartPolicy": "OnFailure"},
            {"backoffLimit": 5},
        ),
        (
            {"restart": "OnFailure", "policies": [on("TaskFailed", "AbortJob")], "maxRetry": 0},
            {},
            {"restartPolicy": "OnFailure"},
            {"backoffLimit": 3},
        ),
        (
            {"restart": "OnFailure", "policies": [on("TaskFailed", "AbortJob")], "maxRetry": -1},
            {},
            {"restartPolicy": "OnFailure"},
            {"backoffLimit": ENDLESS},
        ),
        (
            {"restart": "OnFailure", "policies": [{"exitCode": 3, "action": "RestartTask"}]},
            {},
            {"restartPolicy": "OnFailure"},
            {"backoffLimit": ENDLESS},
        ),
    ]

    for fields, spec, role, run_policy in rows:
        result = spec_of(task(**fields), **spec)
        names = ("restartPolicy", "retryableExitCodes", "backoffLimit")
        worker = result["roles"]["worker"]

        assert {name: worker[name] for name in names if name in worker} == role
        assert result.get("runPolicy", {}) == run_policy


def test_different_limits_are_written_in_the_roles():
    tasks = [
        task("a", restart="OnFailure", policies=[COMPLETES]),
        task("b", policies=[{"exitCode": 3, "action": "RestartPod"}]),
    ]
    spec = spec_of(*tasks)

    assert [role["backoffLimit"] for role in spec["roles"].values()] == [ENDLESS, 3]
    assert spec["runPolicy"] == {"cleanPodPolicy": "Running"}


def test_a_limit_of_the_job_does_not_retry_a_task_that_is_not_restarted():
    spec = spec_of(task("a", restart="OnFailure", policies=[COMPLETES]), task("b"))

    assert spec["runPolicy"]["backoffLimit"] == ENDLESS
    assert [role.get("backoffLimit") for role in spec["roles"].values()] == [None, 0]


# Restarts of several pods together

SCOPE_FIELDS = ("restartScope", "backoffLimit")
RESTART_FIELDS = ("restartPolicy", "retryableExitCodes", "backoffLimit", "restartScope")


def gang(*tasks, **spec):
    """The restart scope and limit of the job, and the restart policies of the roles."""
    result = spec_of(*tasks, **spec)
    shared = {name: result[name] for name in RESTART_FIELDS if name in result}
    policy, roles = result.get("runPolicy", {}), result["roles"].values()
    restarts = [shared | {n: role[n] for n in RESTART_FIELDS if n in role} for role in roles]
    return {name: policy[name] for name in SCOPE_FIELDS if name in policy}, restarts


ALL = {"restartScope": "All", "backoffLimit": 3}
ANY_CODE = {"restartPolicy": "OnFailure"}
NO_CODE = {"restartPolicy": "Never"}
IN_PLACE = {"restartPolicy": "OnFailure", "backoffLimit": ENDLESS, "restartScope": "Replica"}
OTHER_CODES = [code for code in range(1, 256) if code != 3]
ON_3 = {"exitCode": 3, "action": "RestartJob"}


def test_restart_job_is_a_gang_of_all_roles():
    rows = [
        ([on("PodFailed", "RestartJob")], ANY_CODE),
        ([on("PodEvicted", "RestartJob")], NO_CODE),
        ([on("*", "RestartJob")], ANY_CODE),
        ([ON_3], {"restartPolicy": "ExitCode", "retryableExitCodes": [3]}),
        (
            [{"exitCode": 3, "action": "AbortJob"}, on("PodFailed", "RestartJob")],
            {"restartPolicy": "ExitCode", "retryableExitCodes": OTHER_CODES},
        ),
        ([on("PodFailed", "AbortJob"), ON_3, on("PodEvicted", "RestartJob")], NO_CODE),
        (
            [on("PodFailed"), on("PodEvicted", "RestartJob")],
            {"restartPolicy": "Never", "backoffLimit": 3, "restartScope": "Replica"},
        ),
        ([on("PodFailed", "RestartTask"), on("PodEvicted", "RestartJob")], ANY_CODE),
    ]

    assert [gang(task(replicas=2, policies=policies)) for policies, _ in rows] == [
        (ALL, [restart]) for _, restart in rows
    ]


def test_a_policy_of_one_task_restarts_all():
    tasks = [task("ps", policies=[on("PodFailed", "RestartJob")]), task("worker")]
    assert gang(*tasks, maxRetry=7) == (ALL | {"backoffLimit": 7}, [ANY_CODE, NO_CODE])


def test_pods_of_a_gang_still_restart_their_containers_in_place():
    failed = on("TaskFailed", "AbortJob")
    tasks = [
        task("ps", restart=None),
        task("a", restart="OnFailure"),
        task("b", restart="OnFailure", policies=[failed], maxRetry=5),
        task("worker"),
    ]
    always = {"restartPolicy": "Always", "restartScope": "Replica"}
    expected = [always, IN_PLACE, IN_PLACE | {"backoffLimit": 5}, ANY_CODE]
    assert gang(*tasks, policies=[on("PodFailed", "RestartJob")]) == (ALL, expected)


def test_restart_task_is_a_gang_of_one_role():
    tasks = [
        task("a", 2, policies=[on("PodEvicted", "RestartTask"), ON_3 | {"action": "RestartTask"}]),
        task("b"),
        task("c", restart="OnFailure"),
    ]
    on_3 = {"restartPolicy": "ExitCode", "retryableExitCodes": [3]}
    others = [NO_CODE | {"backoffLimit": 0}, ANY_CODE | {"backoffLimit": ENDLESS}]
    assert gang(*tasks) == (ALL | {"restartScope": ["a"]}, [on_3, *others])


@pytest.mark.parametrize(
    ("tasks", "fields"),
    [
        ([task(policies=[on("PodFailed", "RestartJob")])], {}),
        ([task("a", policies=[on("PodFailed", "RestartTask")]), task("b")], {}),
        ([task(replicas=2, policies=[on("PodFailed", "RestartPartition")])], {}),
        ([task(replicas=2, restart="OnFailure", policies=[on("TaskFailed", "RestartJob")])], {}),
        ([task(replicas=2, policies=[on("PodEvicted", "RestartJob")])], {"minAvailable": 1}),
    ],
    ids=["one pod", "one pod in the task", "partition", "in place", "tolerant"],
)
def test_no_gang(tasks, fields):
    assert "restartScope" not in gang(*tasks, **fields)[0]


# Jobs that cannot continue


@pytest.mark.parametrize(
    ("timeouts", "action", "bound"),
    [
        (["2h"], "AbortJob", 7200),
        (["1h2m3.5s"], "TerminateJob", 3724),
        (["5ms"], "AbortJob", 1),
        (["5m", "300s"], "AbortJob", 300),
        (["5m", "6m"], "AbortJob", None),
        (["5m", None], "AbortJob", None),
        (["5"], "AbortJob", None),
        (["soon"], "AbortJob", None),
        (["5m"], "RestartJob", None),
    ],
)
def test_pending_pods(timeouts, action, bound):
    pending = on("PodPending", action)
    tasks = [
        task(f"t{i}", policies=[pending | {"timeout": text}] if text else [])
        for i, text in enumerate(timeouts)
    ]
    expected = {"imagePullSeconds": bound, "pendingSeconds": bound}

    written = spec_of(*tasks).get("runPolicy", {}).get("giveUpAfter")
    assert written == (expected if bound else None)
    at_policies = warnings_of(*tasks, at="spec.tasks.0.policies")
    assert bool(at_policies) == (bound is None)


@pytest.mark.parametrize(
    ("servers", "crashes", "warned"),
    [
        ([("AbortJob", 7)], 7, False),
        ([("TerminateJob", None)], 3, False),
        ([("AbortJob", 7), ("AbortJob", 7)], 7, False),
        ([("AbortJob", 7), ("AbortJob", 9)], 9, True),
        ([("AbortJob", 7), (None, None)], 0, True),
        ([("RestartJob", 7)], 0, True),
        ([("AbortJob", -1)], 0, False),
        ([(None, None)], 0, False),
    ],
)
def test_crashes_of_servers(servers, crashes, warned):
    tasks = [
        task(f"s{i}", restart="Always", policies=[on("TaskFailed", action)] if action else [])
        | ({"maxRetry": limit} if limit else {})
        for i, (action, limit) in enumerate(servers)
    ]
    trainer = task("worker", policies=[COMPLETES])

    assert spec_of(*tasks, trainer)["runPolicy"]["giveUpAfter"] == {"crashes": crashes}
    warnings = [text for _, text, _ in warnings_of(*tasks, trainer, at="spec.tasks.0.policies")]
    assert [text.endswith("Kubernetes keeps restarting them") for text in warnings] == [
        True
    ] * warned


# Policies with a different effect

SCOPE = "to restart all pods of the job together, pass --set spec.runPolicy.restartScope=All"
BOUND = "set a limit: --set spec.runPolicy.giveUpAfter.pendingSeconds=3600"
NEVER = "to restart them after each failure, write restartPolicy: Never and event: PodFailed"
CLEAN = "to stop them, pass --set spec.runPolicy.cleanPodPolicy=Running"
STAYS_PENDING = "Kubernetes keeps it pending"
NOTHING = "Kubernetes does nothing"
ONLY_POD = "Kubernetes replaces only that pod"
MANY_EVENTS = (
    "a pod fails or a pod is evicted or a task completes or part of the gang cannot be scheduled"
    " or the job is updated"
)
OTHER_EVENTS = (
    "containers restart too often or a task completes or a pod is pending for too long or part of"
    " the gang cannot be scheduled or the job is updated"
)
ALL_PODS = "Volcano restarts all pods of the"
OTHERS_CONTINUE = "mlgen ends it, but its other pods continue"


def policy_warnings(restart, policy, *, decides, replicas=2, other="b"):
    """The warnings about one policy of a task in a job with a second task."""
    tasks = [task("a", replicas, restart, policies=[policy]), task(other)]
    if not decides:
        tasks[1]["policies"] = [COMPLETES]
    return [(message, hint) for _, message, hint in warnings_of(*tasks, at="spec.tasks.0.policies")]


def test_a_policy_that_is_carried_out_is_no_warning():
    rows = [
        ("Never", on("PodFailed"), True),
        ("Never", on("PodEvicted"), False),
        ("Never", {"exitCode": 3, "action": "RestartPod"}, True),
        ("Never", on("PodFailed", "AbortJob"), True),
        ("Never", on("PodFailed", "TerminateJob"), True),
        ("Never", on("PodFailed", "TerminateJob"), False),
        ("Never", {"exitCode": 3, "action": "AbortJob"}, True),
        ("Never", on("TaskFailed", "RestartJob"), False),
        ("OnFailure", on("TaskFailed", "AbortJob"), True),
        ("OnFailure", on("TaskFailed", "AbortJob"), False),
        ("Never", COMPLETES, True),
        ("OnFailure", {"exitCode": 3, "action": "RestartJob"}, True),
        ("Never", {"exitCode": 256, "action": "RestartJob"}, True),
        ("Never", on("PodPending"), True),
        ("Never", on("PodFailed", "RestartJob"), True),
        ("OnFailure", on("PodFailed", "RestartJob"), False),
        ("Always", on("PodEvicted", "RestartJob"), False),
        ("Never", {"events": ["PodEvicted", "PodFailed"], "action": "RestartJob"}, True),
        ("Never", on("PodEvicted", "RestartTask"), True),
    ]

    for replicas in [1, 2]:
        for restart, policy, decides in rows:
            assert policy_warnings(restart, policy, decides=decides, replicas=replicas) == []


@pytest.mark.parametrize(
    ("codes", "more"), [((3,), "137 or 143"), ((137,), "143"), ((137, 143), "")]
)
def test_pods_that_the_system_ends_always_restart_together(codes, more):
    policies = [{"exitCode": code, "action": "RestartTask"} for code in codes]

    warnings = warnings_of(task("a", 2, policies=policies), task("b"), at="spec.tasks.")

    text = f"the operator does not restart all pods after exit code {more}; mlgen does"
    assert [text in message for _, message, _ in warnings] == [True] * bool(more)


@pytest.mark.parametrize("action", ["RestartTask", "RestartPartition"])
def test_restarting_a_task_of_one_pod_is_restarting_the_pod(action):
    assert policy_warnings("Never", on("PodFailed", action), decides=True, replicas=1) == []


def test_a_policy_with_another_effect_is_a_warning():
    rows = [
        (
            "Never",
            {"exitCode": 3, "action": "RestartPartition"},
            True,
            f"{ALL_PODS} partition when a pod exits with code 3; {ONLY_POD}",
            SCOPE,
        ),
        (
            "Never",
            on("PodEvicted", "AbortJob"),
            True,
            f"Volcano aborts the job when a pod is evicted; {ONLY_POD}",
            "",
        ),
        (
            "Never",
            on("PodFailed", "CompleteJob"),
            True,
            "Volcano completes the job when a pod fails; in Kubernetes, a fails",
            "",
        ),
        (
            "OnFailure",
            on("PodFailed", "AbortJob"),
            True,
            f"Volcano aborts the job when a pod fails; {ONLY_POD}",
            "",
        ),
        (
            "OnFailure",
            on("TaskFailed", "RestartJob"),
            True,
            f"{ALL_PODS} job when containers restart too often; in Kubernetes, a fails",
            NEVER,
        ),
        (
            "OnFailure",
            on("TaskFailed", "RestartPod"),
            True,
            "Volcano restarts the pod when containers restart too often; in Kubernetes, a fails",
            "",
        ),
        (
            "Never",
            on("TaskCompleted", "TerminateJob"),
            False,
            "Volcano terminates the job when a task completes; Kubernetes does nothing",
            "",
        ),
        (
            "Never",
            on("PodPending", "AbortJob") | {"timeout": "2h"},
            True,
            f"Volcano aborts the job when a pod is pending for too long; {STAYS_PENDING}",
            BOUND,
        ),
        (
            "Never",
            on("Unknown", "RestartJob"),
            True,
            f"{ALL_PODS} job when part of the gang cannot be scheduled; {NOTHING}",
            "",
        ),
        (
            "Never",
            on("JobUpdated", "ResumeJob"),
            True,
            "Volcano resumes the job when the job is updated; Kubernetes does nothing",
            "",
        ),
        (
            "OnFailure",
            on("*", "AbortJob"),
            True,
            f"Volcano aborts the job when {MANY_EVENTS}; {ONLY_POD}",
            "",
        ),
        (
            "OnFailure",
            on("*", "RestartTask") | {"timeout": "1m"},
            True,
            f"{ALL_PODS} task when {OTHER_EVENTS}; in Kubernetes, a fails",
            NEVER,
        ),
        (
            "OnFailure",
            on("*", "CompleteJob") | {"timeout": "1m"},
            False,
            f"Volcano completes the job on any event; {ONLY_POD}",
            "",
        ),
    ]

    assert [
        policy_warnings(restart, policy, decides=decides) for restart, policy, decides, _, _ in rows
    ] == [[(message, hint)] for _, _, _, message, hint in rows]


def test_all_events():
    tasks = [
        task("a", policies=[on("*", "AbortJob") | {"timeout": "1m"}], restart="OnFailure"),
        task("worker"),
    ]
    (warning,) = warnings_of(*tasks, at="spec.tasks.0.policies")
    assert warning[1] == f"Volcano aborts the job on any event; {ONLY_POD}"


@pytest.mark.parametrize(
    ("restart", "policy", "when"),
    [
        ("Never", on("PodFailed", "AbortJob"), "a pod fails"),
        ("Never", {"exitCode": 3, "action": "AbortJob"}, "a pod exits with code 3"),
        ("OnFailure", on("TaskFailed", "AbortJob"), "containers restart too often"),
    ],
)
def test_a_guess_stops_no_pods(restart, policy, when):
    message = f"Volcano aborts the job when {when}; {OTHERS_CONTINUE}"
    warnings = policy_warnings(restart, policy, decides=True, other="worker")
    assert warnings == [(message, CLEAN)]


def test_one_of_several_that_may_complete_the_job_may_fail():
    tasks = [
        task("a", policies=[COMPLETES, on("PodFailed", "AbortJob")]),
        task("b", policies=[COMPLETES]),
        task("c", policies=[on("PodFailed", "AbortJob")]),
    ]
    assert warnings_of(*tasks, at="spec.tasks.") == [
        (
            "spec.tasks.0.policies.1",
            "Volcano aborts the job when a pod fails; mlgen continues until b completes",
            "",
        )
    ]


def test_a_gang_is_not_of_another_size():
    tasks = [
        task("a", 2, policies=[on("PodFailed", "RestartTask")]),
        task("b", 2, policies=[on("PodFailed", "RestartTask")]),
        task("c", 2, policies=[COMPLETES]),
    ]
    at = "spec.tasks.1.policies.0"
    message = f"{ALL_PODS} task when a pod fails; {ONLY_POD}"
    assert warnings_of(*tasks, at="spec.tasks.") == [(at, message, SCOPE)]

    tasks[2]["policies"] = [COMPLETES, on("PodEvicted", "RestartJob")]
    tasks[1]["policies"] = [on("PodEvicted")]
    warnings = warnings_of(*tasks, at="spec.tasks.")
    assert [text for _, text, _ in warnings] == [
        f"{ALL_PODS} task when a pod fails; mlgen restarts all pods of the job",
        "Volcano restarts the pod when a pod is evicted; mlgen restarts all pods of the job",
    ]


def test_a_pod_that_is_restarted_alone_in_a_gang_that_also_restarts():
    policies = [ON_3 | {"action": "RestartTask"}, on("PodFailed")]
    tasks = [task("a", 2, policies=policies), task("b", policies=[COMPLETES])]
    warnings = warnings_of(*tasks, at="spec.tasks.")

    message = "Volcano restarts the pod when a pod fails; mlgen restarts all pods of a"
    assert warnings == [("spec.tasks.0.policies.1", message, "")]


def test_pods_that_cannot_be_restarted_together():
    worker = task(replicas=2, policies=[on("PodEvicted", "RestartJob")])
    (warning,) = warnings_of(worker, at="spec.tasks.0.policies", minAvailable=1)

    assert warning[1:] == (f"{ALL_PODS} job when a pod is evicted; {ONLY_POD}", "")


def test_a_policy_of_the_job_completes_it_only_when_a_decider_completes():
    assert warnings_of(task("a"), task("b"), policies=[COMPLETES]) == []

    (warning,) = warnings_of(task("a"), task("worker"), policies=[COMPLETES])
    completes = "Volcano completes the job when a task completes"
    assert warning[1] == f"{completes}; mlgen completes it when worker completes"


def test_a_policy_of_the_job_is_reported_once():
    tasks = [task("a", 2, policies=[COMPLETES]), task("b", 2)]
    (warning,) = warnings_of(*tasks, policies=[on("PodEvicted", "AbortJob")], at="spec.policies")

    assert warning[0] == "spec.policies.0"


def test_a_policy_of_the_job_that_tasks_override_is_not_reported():
    tasks = [task(policies=[on("PodFailed")])]
    assert warnings_of(*tasks, policies=[on("PodFailed", "AbortJob")]) == []


@pytest.mark.parametrize(
    ("policy", "messages"),
    [
        (
            on("PodFailed") | {"timeout": "1m"},
            ["Volcano restarts the pod after 1m; mlgen does so immediately"],
        ),
        ({"exitCode": 3, "action": "RestartPod", "timeout": "1m"}, []),
        (on("PodPending", "AbortJob") | {"timeout": "1m"}, []),
    ],
)
def test_mlgen_does_not_wait_before_it_acts(policy, messages):
    warnings = warnings_of(task(policies=[policy]), at="spec.tasks.0.policies.0.timeout")
    assert [message for _, message, _ in warnings] == messages


# Waits


def waits(*tasks, **spec):
    roles = spec_of(*tasks, **spec)["roles"]
    return {name: role["waitFor"] for name, role in roles.items() if "waitFor" in role}


def with_port(item, port=80):
    item["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": port}]
    return item


def test_a_task_waits_for_ports_or_else_for_names():
    tasks = [
        with_port(task("store"), 6379),
        task("cache"),
        task("worker", dependsOn={"name": ["store", "cache", "store"]}),
    ]
    assert waits(*tasks) == {"worker": [{"role": "store"}, {"role": "cache", "until": "name"}]}
    assert spec_of(*tasks)["roles"]["store"]["port"] == 6379


def test_a_port_that_no_task_waits_for_stays_in_the_template():
    assert "port" not in spec_of(with_port(task()))["roles"]["worker"]


def test_a_task_does_not_wait_for_one_without_replicas():
    assert waits(task("store", 0), task("worker", dependsOn={"name": ["store"]})) == {}


def test_names_of_a_frameworks_roles_are_enough():
    tasks = [task("ps"), task("worker", dependsOn={"name": ["ps"]})]
    expected = {"worker": [{"role": "ps", "until": "name"}]}
    assert waits(*tasks, plugins={"tensorflow": []}) == expected


def test_a_readiness_probe_says_when_a_task_may_start():
    tasks = [with_port(task("store")), task("cache"), task("worker", dependsOn={"name": ["store"]})]
    tasks[0]["template"]["spec"]["containers"][0]["readinessProbe"] = {"tcpSocket": {"port": 80}}

    assert waits(*tasks) == {"worker": [{"role": "store", "until": "Ready"}]}
    kueue = {"labels": {"kueue.x-k8s.io/queue-name": "q"}}
    assert waits(*tasks, metadata=kueue) == {"worker": [{"role": "store"}]}


@pytest.mark.parametrize(
    ("names", "iteration", "count"),
    [(["a", "b"], "any", 1), (["a"], "any", 0), (["a", "b"], "all", 0)],
)
def test_a_task_waits_for_all_of_its_dependencies(names, iteration, count):
    tasks = [task("a"), task("b"), task("c", dependsOn={"name": names, "iteration": iteration})]
    warnings = warnings_of(*tasks, at="spec.tasks.2")

    assert warnings == count * [
        (
            "spec.tasks.2.dependsOn.iteration",
            "Volcano waits for any one of these tasks; mlgen waits for all of them",
            "list only the task that starts first",
        )
    ]


def test_a_plugin_does_not_turn_dependencies_around():
    tasks = [
        task("head", dependsOn={"name": ["store"]}),
        task("store", dependsOn={"name": ["worker"]}),
        task("worker"),
    ]
    assert "worker" not in waits(*tasks, plugins={"ray": []})
