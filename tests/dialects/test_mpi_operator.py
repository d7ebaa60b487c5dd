"""MPIJobs: each field, default and rule, without rendering."""

import pytest

import mlgen

ENDLESS = 2147483647


def replica_type(replicas=None, restart=None, pod=None, **container):
    main = {"name": "main", "image": "example/m:1", **container}
    fields = {"template": {"spec": {"containers": [main], **(pod or {})}}}
    fields |= {} if replicas is None else {"replicas": replicas}
    return fields | ({} if restart is None else {"restartPolicy": restart})


def mpi_job(version="v1", launcher=None, worker=None, **spec):
    types = {"Launcher": launcher or replica_type(command=["mpirun", "a"])}
    types |= {"Worker": worker} if worker else {}
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "MPIJob",
        "metadata": {"name": "m", "namespace": "a"},
        "spec": {"mpiReplicaSpecs": types, **spec},
    }


def units_job(container=None, pod=None, **spec):
    main = {"name": "main", "image": "example/m:1", **(container or {})}
    return {
        "apiVersion": "kubeflow.org/v1alpha1",
        "kind": "MPIJob",
        "metadata": {"name": "m"},
        "spec": {"template": {"spec": {"containers": [main], **(pod or {})}}, **spec},
    }


GPU = {"limits": {"nvidia.com/gpu": 1}}


@pytest.mark.parametrize(
    ("version", "restart", "policy", "backoff_limit"),
    [
        ("v1", None, "Never", None),
        ("v1", "OnFailure", "OnFailure", None),
        ("v1alpha2", None, "OnFailure", None),
        ("v1alpha2", "OnFailure", "OnFailure", None),
        ("v1alpha2", "Never", "Never", 6),
        ("v2beta1", None, "OnFailure", None),
        ("v2beta1", "Never", "Never", 6),
    ],
)
def test_the_launcher_restarts_as_in_the_operator(version, restart, policy, backoff_limit, job):
    launcher = replica_type(restart=restart, command=["a"])

    role = job(mpi_job(version, launcher, replica_type(2)))["spec"]["roles"]["launcher"]

    assert role["restartPolicy"] == policy
    assert role.get("backoffLimit") == backoff_limit


@pytest.mark.parametrize("limit", [0, 3])
def test_a_launcher_with_never_has_the_backoff_limit_of_the_job(limit, job):
    launcher = replica_type(restart="Never", command=["a"])
    custom_resource = mpi_job(
        "v2beta1", launcher, replica_type(2), runPolicy={"backoffLimit": limit}
    )

    assert job(custom_resource)["spec"]["roles"]["launcher"]["backoffLimit"] == limit


@pytest.mark.parametrize(
    ("restart", "limit"), [(None, None), ("Never", None), ("OnFailure", ENDLESS)]
)
def test_v1_restarts_a_launcher_without_limit_only_if_it_restarts(restart, limit, job):
    launcher = replica_type(restart=restart, command=["a"])

    spec = job(mpi_job("v1", launcher, replica_type(2)))["spec"]

    assert spec.get("runPolicy", {}).get("backoffLimit") == limit


@pytest.mark.parametrize(
    ("launcher", "restart", "count"),
    [
        ("OnFailure", None, 0),
        ("OnFailure", "Always", 0),
        ("OnFailure", "OnFailure", 0),
        ("OnFailure", "Never", 1),
        ("ExitCode", "ExitCode", 1),
        ("Never", "Never", 0),
        (None, "Never", 0),
    ],
)
def test_workers_of_v1_restart_with_the_launcher(launcher, restart, count, reported):
    custom_resource = mpi_job("v1", replica_type(restart=launcher), replica_type(2, restart))

    problems = reported(custom_resource)

    assert [path for path, _ in problems] == ["spec.mpiReplicaSpecs.Worker.restartPolicy"] * count


@pytest.mark.parametrize(("replicas", "valid"), [(None, True), (1, True), (0, False), (2, False)])
def test_there_is_one_launcher(replicas, valid, reported):
    problems = reported(mpi_job(launcher=replica_type(replicas), worker=replica_type(1)))
    problem = (
        "spec.mpiReplicaSpecs.Launcher.replicas",
        "the Launcher must have one replica",
    )

    assert problems == ([] if valid else [problem])


@pytest.mark.parametrize(("replicas", "path"), [(0, ".replicas"), (None, "")])
def test_v2beta1_requires_the_number_of_workers(replicas, path, reported):
    custom_resource = mpi_job("v2beta1", worker=replica_type(replicas))

    assert reported(custom_resource) == [
        (
            f"spec.mpiReplicaSpecs.Worker{path}",
            "the Worker requires replicas, at least 1",
        )
    ]


@pytest.mark.parametrize("replicas", [0, None])
def test_without_workers_the_launcher_is_an_ordinary_job(replicas, job):
    spec = job(mpi_job("v1", worker=replica_type(replicas), slotsPerWorker=2))["spec"]

    assert spec["framework"] == "generic"
    assert list(spec["roles"]) == ["launcher"]
    assert "options" not in spec
    assert "env" not in spec["roles"]["launcher"]


def test_a_launcher_that_works_alone_knows_its_slots(job):
    spec = job(mpi_job("v2beta1", slotsPerWorker=3, runLauncherAsWorker=True))["spec"]

    env = spec["roles"]["launcher"]["env"]
    assert env == {"K_MPI_JOB_ROLE": "launcher", "OMPI_MCA_orte_set_default_slots": "3"}


@pytest.mark.parametrize(
    ("resources", "works"),
    [(GPU, True), ({"limits": {"cpu": 1}}, None), ({"requests": GPU["limits"]}, None)],
)
def test_v1_runs_processes_in_a_launcher_with_gpus(resources, works, job):
    launcher = replica_type(command=["a"], resources=resources)

    spec = job(mpi_job("v1", launcher, replica_type(2)))["spec"]

    assert spec.get("options", {}).get("runLauncherAsWorker") is works


def test_v1_sets_variables_of_intel_mpi_that_the_user_does_not(job):
    env = [{"name": "I_MPI_HYDRA_BOOTSTRAP", "value": "ssh"}]
    launcher = replica_type(command=["a"], env=env)

    role = job(mpi_job("v1", launcher, replica_type(2)))["spec"]["roles"]["launcher"]

    assert role["env"] == {
        "I_MPI_HYDRA_BOOTSTRAP": "ssh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": "/etc/mpi/kubexec.sh",
    }


@pytest.mark.parametrize(
    ("implementation", "removed"),
    [
        ("OpenMPI", "OMPI_MCA_plm_rsh_args"),
        ("Intel", "I_MPI_PERHOST"),
        ("MPICH", "HYDRA_LAUNCH_EXTRA_ARGS"),
    ],
)
def test_variables_that_the_operator_overwrites_are_removed(implementation, removed, job):
    names = ["OMPI_MCA_plm_rsh_args", "I_MPI_PERHOST", "HYDRA_LAUNCH_EXTRA_ARGS"]
    launcher = replica_type(command=["a"], env=[{"name": name, "value": "b"} for name in names])
    custom_resource = mpi_job(
        "v2beta1", launcher, replica_type(2), mpiImplementation=implementation
    )

    env = job(custom_resource)["spec"]["roles"]["launcher"]["env"]

    assert set(names) - set(env) == {removed}


def test_a_launcher_that_does_not_work_sees_no_gpus(job):
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    launcher = replica_type(command=["a"], env=env)

    role = job(mpi_job("v1alpha2", launcher, replica_type(2)))["spec"]["roles"]["launcher"]

    assert role["env"] == {"NVIDIA_VISIBLE_DEVICES": ""}


@pytest.mark.parametrize(
    ("distribution", "implementation"),
    [("IntelMPI", "Intel"), ("intel_mpi", "Intel"), ("mpich", "MPICH"), ("OpenMPI", "OpenMPI")],
)
def test_distributions_have_two_names(distribution, implementation, job):
    custom_resource = mpi_job("v1alpha2", worker=replica_type(2), mpiDistribution=distribution)

    assert job(custom_resource)["spec"]["options"]["implementation"] == implementation


def test_the_main_container_is_named_or_the_first(job):
    pod = {"containers": [{"name": name, "image": "example/m:1"} for name in ("a", "b")]}
    launcher, worker = replica_type(), replica_type(2)
    launcher["template"]["spec"] = worker["template"]["spec"] = pod

    names = [
        job(mpi_job("v1", launcher, worker, **spec))["spec"]["mainContainer"]
        for spec in ({}, {"mainContainer": "b"})
    ]

    assert names == ["a", "b"]


def test_only_workers_need_the_container_that_is_named(reported):
    custom_resource = mpi_job("v1", worker=replica_type(2, name="worker"), mainContainer="worker")

    assert reported(custom_resource) == []

    custom_resource["spec"]["mainContainer"] = "other"
    worker = custom_resource["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]
    assert reported(custom_resource) == [
        (
            "spec.mpiReplicaSpecs.Worker.template.spec.containers[0].name",
            'the operator requires a container named "other"; mlgen uses the only container',
        )
    ]

    worker["containers"].append({"name": "logs", "image": "example/logs:1"})
    assert reported(custom_resource) == [
        ("spec.mainContainer", 'no container of the Worker has the name "other"')
    ]


def test_a_worker_without_a_command_ignores_its_args(job, reported):
    custom_resource = mpi_job("v1", worker=replica_type(2, args=["a"]))

    assert "args" not in job(custom_resource)["spec"]["roles"]["worker"]
    assert [path for path, _ in reported(custom_resource)] == [
        "spec.mpiReplicaSpecs.Worker.template.spec.containers[0].args"
    ]


@pytest.mark.parametrize("version", ["v1", "v1alpha2"])
@pytest.mark.parametrize("command", [[], [""]])
def test_a_worker_with_an_empty_command_has_none(version, command, job, reported):
    """The operator's first example writes command: [""]."""
    custom_resource = mpi_job(version, worker=replica_type(2, command=command))

    assert "command" not in job(custom_resource)["spec"]["roles"]["worker"]
    assert reported(custom_resource) == []


@pytest.mark.parametrize(
    ("restart", "count"),
    [(None, 0), ("Always", 0), ("OnFailure", 0), ("Never", 1), ("ExitCode", 1)],
)
def test_workers_of_v1alpha2_always_restart(restart, count, reported):
    problems = reported(mpi_job("v1alpha2", worker=replica_type(2, restart)))

    message = "a failed worker restarts, because mpirun needs all workers"
    assert problems == [("spec.mpiReplicaSpecs.Worker.restartPolicy", message)] * count


def test_a_worker_with_a_command_keeps_its_args(job):
    worker = replica_type(2, command=["a"], args=["b"])

    role = job(mpi_job("v1", worker=worker))["spec"]["roles"]["worker"]

    assert (role["command"], role["args"]) == (["a"], ["b"])


@pytest.mark.parametrize(
    ("arguments", "slots", "working", "sizes"),
    [
        ("-np 4", 1, False, (1, 3)),
        ("--min-np 2 --max-np 6", 1, False, (2, 6)),
        ("--min-np=2 --max-np=6", 1, False, (2, 6)),
        ("--min-num-proc 2 --max-num-proc 6", 1, False, (2, 6)),
        ("--min-np 3 --max-np 9", 2, False, (2, 4)),
        ("--min-np 4 --max-np 8", 2, False, (2, 4)),
        ("--min-np 2 --max-np 6", 1, True, (1, 5)),
        ("--min-np 1 --max-np 2", 1, True, (1, 3)),
        ("--min-np 9 --max-np 12", 1, False, (3, 12)),
    ],
)
def test_processes_of_horovodrun_are_a_range_of_workers(arguments, slots, working, sizes, job):
    command = ["horovodrun", "--host-discovery-script", "/etc/mpi/discover_hosts.sh"]
    launcher = replica_type(command=[*command, *arguments.split()])
    options = {"slotsPerWorker": slots, "runLauncherAsWorker": working}

    spec = job(mpi_job("v2beta1", launcher, replica_type(3), **options))["spec"]

    assert spec["framework"] == "horovod"
    elastic = spec["options"]["elasticPolicy"]
    assert (elastic["minReplicas"], elastic["maxReplicas"]) == sizes


def test_the_port_of_sshd_is_read_from_the_worker(job):
    rows = [
        ({}, None),
        ({"command": ["/usr/sbin/sshd", "-De", "-p", "2020"]}, 2020),
        ({"command": ["/usr/sbin/sshd"], "args": ["-p2020"]}, 2020),
        ({"args": ["sshd -o Port=2020"]}, 2020),
        ({"args": ["sshd -o 'Port 2020'"]}, 2020),
        ({"args": ["-p", "2020"]}, None),
        ({"ports": [{"containerPort": 2022, "name": "my-ssh"}]}, 2022),
        ({"ports": [{"containerPort": 80}, {"containerPort": 22}]}, 22),
        ({"ports": [{"containerPort": 80}, {"containerPort": 2222}]}, 2222),
        ({"ports": [{"containerPort": 80}]}, None),
        ({"command": ["a"], "ports": [{"containerPort": 80}]}, None),
        ({"readinessProbe": {"tcpSocket": {"port": 2022}}}, 2022),
        ({"readinessProbe": {"tcpSocket": {"port": "ssh"}}}, None),
        (
            {
                "command": ["sshd", "-p", "2020"],
                "ports": [{"containerPort": 22}],
                "readinessProbe": {"tcpSocket": {"port": 2022}},
            },
            2020,
        ),
    ]

    for container, port in rows:
        spec = job(mpi_job("v2beta1", worker=replica_type(2, **container)))["spec"]

        assert spec["roles"]["worker"].get("port") == port


def test_the_command_for_ssh_keys_names_the_namespace(problems):
    custom_resource = mpi_job("v2beta1", worker=replica_type(2))
    without = mpi_job("v2beta1", worker=replica_type(2))
    del without["metadata"]["namespace"]

    hints = [
        problem.hint for resource in (custom_resource, without) for problem in problems(resource)
    ]

    assert hints == [
        "run once: mlgen ssh-secret -n a m-ssh | kubectl apply -f -",
        "run once: mlgen ssh-secret m-ssh | kubectl apply -f -",
    ]


@pytest.mark.parametrize(
    ("restart", "limit", "per_index"),
    [(None, None, None), ("Never", None, 0), ("OnFailure", ENDLESS, None)],
)
def test_workers_of_v2beta1_fail_or_restart_one_by_one(restart, limit, per_index, job):
    launcher = replica_type(restart="Never", command=["a"])
    custom_resource = mpi_job(
        "v2beta1", launcher, replica_type(2, restart), runPolicy={"backoffLimit": 3}
    )

    spec = job(custom_resource)["spec"]

    role = spec["roles"]["worker"]
    policy = role.get("restartPolicy", spec.get("restartPolicy"))
    assert (policy, role.get("backoffLimit")) == (restart, limit)
    assert role.get("backoffLimitPerIndex") == per_index


def test_a_pod_on_the_host_network_resolves_names_of_the_cluster(job):
    worker = replica_type(2, pod={"hostNetwork": True})

    roles = job(mpi_job("v2beta1", worker=worker))["spec"]["roles"]

    assert roles["worker"]["template"]["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert "dnsPolicy" not in roles["launcher"].get("template", {}).get("spec", {})


@pytest.mark.parametrize(
    ("policy", "queue"), [({}, "annotated"), ({"queue": "of-the-policy"}, "of-the-policy")]
)
def test_the_queue_of_volcano_may_be_an_annotation(policy, queue, job):
    worker = replica_type(2, pod={"schedulerName": "volcano"})
    policy = {"schedulingPolicy": {"minAvailable": 3, **policy}}
    custom_resource = mpi_job("v2beta1", worker=worker, runPolicy=policy)
    custom_resource["metadata"]["annotations"] = {"scheduling.volcano.sh/queue-name": "annotated"}

    assert job(custom_resource)["spec"]["scheduling"]["queue"] == queue


@pytest.mark.parametrize(
    ("units", "workers", "slots"),
    [
        ({"gpus": 1}, 1, 1),
        ({"gpus": 7}, 1, 7),
        ({"gpus": 8}, 1, 8),
        ({"gpus": 16}, 2, 8),
        ({"gpus": 4, "gpusPerNode": 2}, 2, 2),
        ({"gpus": 4, "gpusPerNode": 4}, 1, 4),
        ({"gpus": 3, "gpusPerNode": 4}, 1, 3),
        ({"processingUnits": 3}, 3, 1),
        ({"processingUnits": 6, "processingUnitsPerNode": 2}, 3, 2),
    ],
)
def test_v1alpha1_divides_units_among_workers(units, workers, slots, job):
    spec = job(units_job(**units))["spec"]

    worker = spec["roles"]["worker"]
    assert worker["replicas"] == workers
    assert worker["resources"] == {"nvidia.com/gpu": slots}
    assert spec["options"]["slotsPerWorker"] == slots


@pytest.mark.parametrize(("gpus", "valid"), [(3, True), (4, True), (8, True), (6, False)])
def test_v1alpha1_requires_a_multiple_of_the_units_per_node(gpus, valid, reported):
    problem = ("spec.gpus", f"{gpus} is not a multiple of 4, the number of gpus per node")

    assert reported(units_job(gpus=gpus, gpusPerNode=4)) == ([] if valid else [problem])


@pytest.mark.parametrize(("units", "most"), [("gpus", 8), ("processingUnits", 1)])
def test_v1alpha1_reports_the_units_per_node_that_are_assumed(units, most, reported):
    message = (
        f"the operator's configuration sets the number of {units} per node; mlgen assumes {most}"
    )

    assert reported(units_job(**{units: 8})) == [(f"spec.{units}", message)]


def test_v1alpha1_takes_slots_of_replicas_from_their_limit(job):
    limits = {"limits": {"cpu": "2", "nvidia.com/gpu": 4}}

    spec = job(units_job({"resources": limits}, replicas=3, processingResourceType="cpu"))["spec"]

    assert spec["roles"]["worker"]["replicas"] == 3
    assert spec["options"]["slotsPerWorker"] == 2


@pytest.mark.parametrize(("slots", "option"), [(None, None), (5, 5)])
def test_v1alpha1_has_no_slots_unless_they_are_known(slots, option, job):
    spec = {"replicas": 3} | ({"slotsPerWorker": slots} if slots else {})

    assert job(units_job(**spec))["spec"].get("options", {}).get("slotsPerWorker") == option


def test_v1alpha1_gives_resources_to_workers_and_a_command_to_the_launcher(job):
    container = {
        "command": ["mpirun"],
        "args": ["a"],
        "resources": {"requests": {"cpu": 1, "nvidia.com/gpu": 9}},
    }

    roles = job(units_job(container, gpus=2, gpusPerNode=1))["spec"]["roles"]

    assert roles["launcher"]["command"] == ["mpirun"]
    assert roles["launcher"]["args"] == ["a"]
    assert "resources" not in roles["launcher"]
    assert roles["worker"]["resources"] == {
        "requests": {"nvidia.com/gpu": 1, "cpu": 1},
        "limits": {"nvidia.com/gpu": 1},
    }
    assert not {"command", "args"} & set(roles["worker"])


def test_v1alpha1_units_are_set_once(reported):
    assert reported(units_job(gpus=2, replicas=2)) == [
        ("spec.replicas", "gpus, processingUnits and replicas are mutually exclusive")
    ]


def test_v1alpha1_without_units_is_a_launcher_alone(job):
    spec = job(units_job({"command": ["a"]}))["spec"]

    assert (spec["framework"], list(spec["roles"])) == ("generic", ["launcher"])


@pytest.mark.parametrize("on_master", [True, False])
def test_v1alpha1_places_the_launcher_on_a_control_plane_node(on_master, job):
    roles = job(units_job(gpus=8, gpusPerNode=8, launcherOnMaster=on_master))["spec"]["roles"]

    keys = [toleration["key"] for toleration in roles["launcher"].get("tolerations", [])]
    names = ["node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane"]
    assert keys == (names if on_master else [])
    assert ("affinity" in roles["launcher"]) is on_master
    assert "tolerations" not in roles["worker"]


@pytest.mark.parametrize(("units", "policy"), [({"gpus": 8}, "Running"), ({}, None)])
def test_workers_of_v1alpha1_are_stopped_when_the_launcher_has_ended(units, policy, job):
    spec = job(units_job({"command": ["a"]}, **units))["spec"]

    assert spec.get("runPolicy", {}).get("cleanPodPolicy") == policy


@pytest.mark.parametrize(
    ("version", "names"),
    [("v1", ["mpi-job-config", "mpi-job-kubectl"]), ("v2beta1", ["mpi-job-config", "ssh-auth"])],
)
def test_an_init_container_mounts_the_volumes_of_the_operator(version, names):
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in names]
    pod = {"initContainers": [{"name": "order", "image": "example/o:1", "volumeMounts": mounts}]}
    launcher = replica_type(pod=pod, command=["mpirun", "a"])

    objects = mlgen.render(mpi_job(version, launcher, replica_type(2)))

    (pod,) = (
        each["spec"]["template"]["spec"]
        for each in objects
        if each["metadata"]["name"] == "m-launcher" and each["kind"] == "Job"
    )
    assert {*names} <= {volume["name"] for volume in pod["volumes"]}
    if version == "v2beta1":  # the keys are there before it starts
        started = [container["name"] for container in pod["initContainers"]]
        assert started.index("ssh-setup") < started.index("order")
