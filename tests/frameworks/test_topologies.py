"""The topology of a small job for each framework: roles, waits, files, the deciding role."""

import pytest

from mlgen import MlgenError, frameworks
from mlgen.frameworks._lifecycle import ANY, FIRST
from mlgen.jobfile.model import Helpers, RoleSpec, TrainingJob, WaitFor
from mlgen.topology import PodField

TRAIN = ("python", "train.py")


def row(role):
    """Return a role as text: name, replicas, behavior, and the roles that it waits for."""
    kind = "serves" if role.serves else "decides" if role.decides else "runs"
    index = "" if role.index is None else f"[{role.index}]"
    words = [f"{role.name}{index} x{role.replicas} {kind}"]
    if not role.serves:
        words.append(f"with {role.restart}")
    if role.success and role.success.indexes:
        words.append(f"when index {role.success.indexes} succeeds")
    elif role.success:
        words.append(f"when {role.success.count} succeed")
    words += [f"after {w.hosts}" + (f":{w.port}" if w.port else "") for w in role.waits]
    return " ".join(words)


LAYOUTS = {
    "tensorflow-ps": (
        ("tensorflow", {"chief": 1, "ps": 2, "worker": 2, "evaluator": 1}),
        [
            "chief x1 decides with Never after ctr-ps-[0-1].ctr",
            "ps x2 serves",
            "worker x2 runs with Never after ctr-ps-[0-1].ctr",
            "evaluator x1 runs with Never",
        ],
    ),
    "tensorflow-workers": (
        ("tensorflow", {"worker": 2}),
        ["worker x2 decides with Never after ctr-worker-[0-1].ctr"],
    ),
    "tensorflow-chief": (
        ("tensorflow", {"chief": 1, "worker": 2}),
        [
            f"{role} after ctr-chief-0.ctr after ctr-worker-[0-1].ctr"
            for role in ("chief x1 decides with Never", "worker x2 runs with Never")
        ],
    ),
    "tensorflow-chief-evaluator": (
        ("tensorflow", {"chief": 1, "evaluator": 1}),
        ["chief x1 decides with Never", "evaluator x1 runs with Never"],
    ),
    "tensorflow-dynamic": (
        ("tensorflow", {"worker": 2}, {"enableDynamicWorker": True}),
        ["worker x2 decides with Never when index 0 succeeds"],
    ),
    "tensorflow-single": (
        ("tensorflow", {"worker": 1}),
        ["worker x1 decides with Never"],
    ),
    "pytorch": (
        ("pytorch", {"master": 1, "worker": 2}),
        ["rank x3 decides with Never after ctr-rank-0"],
    ),
    "pytorch-elastic": (
        ("pytorch", {"worker": 2}, {"elasticPolicy": {}}),
        ["worker x2 decides with OnFailure after ctr-worker-0"],
    ),
    "pytorch-elastic-master": (
        ("pytorch", {"master": 1, "worker": 2}, {"elasticPolicy": {"minReplicas": 2}}),
        [
            "master x1 decides with OnFailure after ctr-worker-0",
            "worker x2 runs with OnFailure after ctr-worker-0",
        ],
    ),
    "mpi": (
        ("mpi", {"launcher": 1, "worker": 2}),
        ["launcher x1 decides with Never", "worker x2 serves"],
    ),
    "mpi-ssh": (
        ("mpi", {"launcher": 1, "worker": 2}, {"transport": "ssh"}),
        ["launcher x1 decides with Never after ctr-worker-[0-1].ctr:2222", "worker x2 serves"],
    ),
    "horovod-elastic": (
        (
            "horovod",
            {"launcher": 1, "worker": 2},
            {"transport": "ssh", "elasticPolicy": {"minReplicas": 1, "maxReplicas": 3}},
        ),
        ["launcher x1 decides with Never after ctr-worker-0.ctr:2222", "worker x2 serves"],
    ),
    "deepspeed": (
        ("deepspeed", {"launcher": 1, "worker": 2}),
        ["launcher x1 decides with Never after ctr-worker-[0-1].ctr:2222", "worker x2 serves"],
    ),
    "mxnet": (
        ("mxnet", {"scheduler": 1, "server": 2, "worker": 3}),
        [
            "scheduler x1 decides with Never",
            "server x2 runs with Never after ctr-scheduler-0.ctr",
            "worker x3 runs with Never after ctr-scheduler-0.ctr after ctr-server-[0-1].ctr",
        ],
    ),
    "mxnet-tune": (
        ("mxnet", {"tunertracker": 1, "tunerserver": 2, "tuner": 1}),
        [
            "tunertracker x1 serves",
            "tunerserver x2 serves after ctr-tunertracker-0.ctr",
            "tuner x1 decides with Never after ctr-tunertracker-0.ctr",
        ],
    ),
    "mxnet-single": (("mxnet", {"worker": 1}), ["worker x1 decides with Never"]),
    "xgboost": (
        ("xgboost", {"master": 1, "worker": RoleSpec("worker", 2, image="i:1")}),
        [
            "master x1 decides with Never after ctr-master-0.ctr after ctr-worker-[0-1].ctr",
            *(
                f"worker[{i}] x1 runs with Never"
                " after ctr-master-0.ctr after ctr-worker-[0-1].ctr after ctr-master-0"
                for i in range(2)
            ),
        ],
    ),
    "jax": (("jax", {"worker": 2}), ["worker x2 decides with Never after ctr-worker-0.ctr"]),
    "jax-single": (("jax", {"worker": 1}), ["worker x1 decides with Never"]),
    "paddle": (
        ("paddle", {"worker": 2}),
        ["worker x2 decides with OnFailure after ctr-worker-0.ctr"],
    ),
    "paddle-ps": (
        ("paddle", {"master": 1, "worker": 2}),
        [
            "master x1 decides with OnFailure after ctr-master-0.ctr",
            "worker x2 runs with OnFailure after ctr-master-0.ctr",
        ],
    ),
    "ray": (
        ("ray", {"head": 1, "worker": 2, "submitter": RoleSpec("submitter", args=TRAIN)}),
        [
            "head x1 serves",
            "worker x2 serves after ctr-head-0.ctr:6379",
            "submitter x1 decides with Never after ctr-head-0.ctr:8265",
        ],
    ),
    "ray-head": (
        ("ray", {"head": RoleSpec("head", command=TRAIN), "worker": 1}),
        ["head x1 decides with Never", "worker x1 serves after ctr-head-0.ctr"],
    ),
    "elasticdl": (
        ("elasticdl", {"master": 1, "ps": 1, "worker": 2}),
        ["master x1 decides with Never"],
    ),
    "xdl": (
        ("xdl", {"ps": 1, "scheduler": 1, "worker": 20, "extendrole": 1}),
        [
            "ps x1 serves",
            "scheduler x1 serves",
            (
                "worker x20 decides with Never when 18 succeed"
                " after ctr-scheduler-0.ctr after ctr-ps-0.ctr"
            ),
            "extendrole x1 runs with Never after ctr-scheduler-0.ctr after ctr-ps-0.ctr",
        ],
    ),
    "xdl-all": (("xdl", {"worker": 9}), ["worker x9 decides with Never"]),
    "xdl-number": (
        ("xdl", {"worker": 9}, {"minFinishWorkNum": 2}),
        ["worker x9 decides with Never when 2 succeed"],
    ),
    "mars": (
        ("mars", {"scheduler": 1, "webservice": 1, "worker": 2}),
        [
            "scheduler x1 decides with Never",
            "webservice x1 serves after ctr-scheduler-0.ctr",
            "worker x2 runs with ExitCode after ctr-scheduler-0.ctr",
        ],
    ),
    "generic": (
        ("generic", {"learner": 1, "db": RoleSpec("db", 2, port=5, restart_policy="Always")}),
        ["learner x1 decides with Never", "db x2 serves"],
    ),
}


@pytest.mark.parametrize(("job", "rows"), LAYOUTS.values(), ids=LAYOUTS)
def test_roles_waits_and_the_deciding_role(topology, job, rows):
    framework, roles, *options = job

    assert [row(role) for role in topology(framework, roles, **dict(*options)).roles] == rows


ELASTIC = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 3}, "slotsPerWorker": 2}
LAUNCHED = {"launcher": 1, "worker": 2}


@pytest.mark.parametrize(
    ("framework", "options", "files"),
    [
        ("mpi", {}, {"hostfile": "ctr-worker-0 slots=1\nctr-worker-1 slots=1\n"}),
        (
            "mpi",
            {"transport": "ssh", "implementation": "MPICH", "slotsPerWorker": 4},
            {"hostfile": "ctr-worker-0.ctr:4\nctr-worker-1.ctr:4\n"},
        ),
        (
            "mpi",
            {"transport": "ssh", "runLauncherAsWorker": True},
            {
                "hostfile": "ctr-launcher-0 slots=1\nctr-worker-0.ctr slots=1\n"
                "ctr-worker-1.ctr slots=1\n"
            },
        ),
        (
            "horovod",
            {**ELASTIC, "runLauncherAsWorker": True},
            {
                "hostfile": "ctr-launcher-0 slots=2\nctr-worker-0 slots=2\nctr-worker-1 slots=2\n",
                "elastic-hosts": "ctr-launcher-0:2 ctr-launcher-0.ctr\n"
                "ctr-worker-0:2 ctr-worker-0.ctr\nctr-worker-1:2 ctr-worker-1.ctr\n"
                "ctr-worker-2:2 ctr-worker-2.ctr\n",
            },
        ),
    ],
)
def test_files_of_a_launcher(topology, framework, options, files):
    assert topology(framework, LAUNCHED, **options).files == files


@pytest.mark.parametrize(
    ("words", "options", "hosts"),
    [
        (["-np", "12"], {}, {"ctr-worker-0": 6, "ctr-worker-1": 6}),
        (["-np", "3"], {}, {"ctr-worker-0": 2, "ctr-worker-1": 2}),
        (["-np", "1"], {}, {"ctr-worker-0": 1, "ctr-worker-1": 1}),
        (["-np", "12"], {"slotsPerWorker": 3}, {"ctr-worker-0": 3, "ctr-worker-1": 3}),
        (
            ["-np", "6"],
            {"runLauncherAsWorker": True},
            {"ctr-launcher-0": 2, "ctr-worker-0": 2, "ctr-worker-1": 2},
        ),
    ],
)
def test_slots_follow_from_the_number_of_processes(topology, words, options, hosts):
    launcher = RoleSpec("launcher", command=("mpirun", *words, "solve"))

    files = topology("mpi", {"launcher": launcher, "worker": 2}, **options).files

    assert files["hostfile"] == "".join(f"{name} slots={slots}\n" for name, slots in hosts.items())


@pytest.mark.parametrize("transport", ["kubectl-exec", "ssh"])
def test_the_volumes_of_mpi_have_the_operators_names_unless_the_user_has_one(topology, transport):
    own = RoleSpec("worker", volumes={"mpi-job-config": {"mountPath": "/w", "emptyDir": {}}})
    names = []
    for worker in (RoleSpec("worker"), own):
        roles = {"launcher": RoleSpec("launcher"), "worker": worker}
        launcher, *_ = topology("mpi", roles, transport=transport).roles
        names.append({mount.volume.name for mount in launcher.mounts})

    other = "mpi-job-kubectl" if transport == "kubectl-exec" else "ssh-auth"
    assert names == [{"mpi-job-config", other}, {"mlgen-mpi-job-config", other}]


def test_on_the_host_network_a_launcher_that_works_waits_for_its_own_name(topology):
    options = {"transport": "ssh", "runLauncherAsWorker": True}

    launcher, *_ = topology("mpi", LAUNCHED, host=True, **options).roles

    assert [str(wait.hosts) for wait in launcher.waits][1:] == ["ctr-launcher-0.ctr"]


def test_a_launcher_can_run_commands_in_all_workers_that_can_exist(topology):
    launcher, worker = topology("horovod", LAUNCHED, **ELASTIC).roles

    pods = ("ctr-worker-0", "ctr-worker-1", "ctr-worker-2")
    assert [(right.resource, right.names) for right in launcher.rights] == [
        ("pods", pods),
        ("pods/exec", pods),
    ]
    assert launcher.helpers[0].env["MLGEN_PODS"] == "ctr-worker-0"
    assert (worker.command, worker.args, worker.rights) == (("sleep",), ("365d",), ())


def test_a_launcher_with_waits_of_its_own_does_not_wait_for_pods(topology):
    launcher = RoleSpec("launcher", wait_for=())
    roles = topology("mpi", {"launcher": launcher, "worker": 1}).roles

    assert roles[0].helpers[0].env["MLGEN_PODS"] == ""


@pytest.mark.parametrize(
    ("command", "options", "agent_waits"),
    [
        (("mpirun", "-np", "2", "train"), {}, True),
        (("sh", "-c", "cp a b && mpirun train"), {}, True),
        (("mpirun", "train"), {"implementation": "MPICH"}, False),
        (("python", "launch.py"), {}, False),
        (("sh", "-c", "mpirun a; horovodrun b"), {}, False),
    ],
)
def test_the_agent_waits_for_each_worker_where_mpirun_waits_for_its_agents(
    topology, command, options, agent_waits
):
    launcher = RoleSpec("launcher", command=command)
    first, _ = topology("mpi", {"launcher": launcher, "worker": 2}, **options).roles

    assert first.helpers[0].env["MLGEN_PODS"] == ("" if agent_waits else "ctr-worker-[0-1]")
    assert ("MLGEN_CONTAINER" in first.env) == agent_waits


def test_deepspeed_has_its_hostfile_in_two_folders(topology):
    launcher, _ = topology("deepspeed", LAUNCHED).roles

    assert [mount.path for mount in launcher.mounts][-2:] == ["/etc/mpi", "/job"]


@pytest.mark.parametrize(
    ("fields", "paths"),
    [
        ({}, ["/etc/ssh/ssh_config"]),
        ({"user": 0}, ["/etc/ssh/ssh_config"]),
        ({"user": 1000}, ["/etc/ssh/ssh_config", "/etc/passwd"]),
        ({"user": 1000, "volume": "/etc/passwd"}, ["/etc/ssh/ssh_config"]),
        ({"user": 1000, "volume": "/etc/ssh/"}, ["/etc/passwd"]),
        ({"volume": "/etc"}, []),
        ({"volume": "/etc/ssh/keys"}, ["/etc/ssh/ssh_config"]),
    ],
)
def test_ssh_works_for_every_user_without_replacing_files_of_the_job(topology, fields, paths):
    """The files of the system are at the same paths for every user; those of the user stay."""
    main = {"name": "main"}
    if "user" in fields:
        main["securityContext"] = {"runAsUser": fields["user"]}
    if "volume" in fields:
        main["volumeMounts"] = [{"name": "own", "mountPath": fields["volume"]}]
    template = {"spec": {"containers": [main]}}
    roles = {
        "launcher": 1,
        "worker": RoleSpec("worker", replicas=2, templates=(template,)),
    }
    _, worker = topology("mpi", roles, transport="ssh").roles

    assert [mount.path for mount in worker.mounts if mount.file] == paths
    assert worker.command == ("/etc/mpi/start-sshd.sh",)


def test_ssh_works_for_a_user_that_the_cluster_assigns():
    roles = {name: RoleSpec(name) for name in ("launcher", "worker")}
    helpers, options = Helpers(run_as_user="Cluster"), {"transport": "ssh", "sshSecret": "k"}
    job = TrainingJob("ctr", "mpi", roles, options=options, helpers=helpers)
    for role in frameworks.get("mpi").topology(job).roles:
        assert "/etc/passwd" in [mount.path for mount in role.mounts if mount.file]


def test_ray_starts_the_head_and_the_workers(topology):
    head, worker, _ = topology(
        "ray", {"head": 1, "worker": 1, "submitter": RoleSpec("submitter", args=TRAIN)}
    ).roles

    assert head.command[:4] == ("ray", "start", "--head", "--block")
    assert head.more_ports == {"dashboard": 8265, "client": 10001}
    assert worker.command == ("ray", "start", "--block", "--address=ctr-head-0.ctr:6379")


def test_paddle_uses_the_ip_address_of_a_pod_with_host_networking(topology):
    first, second = topology("paddle", {"worker": 2}, host=True).roles

    assert first.env["POD_IP"] == second.env["POD_IP"] == PodField("status.podIP")
    assert first.env["PADDLE_MASTER"] == f"$(POD_IP):{first.host_ports['peers']}"
    assert second.env["PADDLE_MASTER"] == "ctr-worker-0:36543"


def test_torchrun_hosts_the_rendezvous_on_worker_0_with_host_networking(topology):
    roles = {"master": 1, "worker": 2}
    master, first, second = topology("pytorch", roles, host=True, elasticPolicy={}).roles

    assert first.env["PET_RDZV_CONF"] == "read_timeout=600,is_host=1"
    assert master.env["PET_RDZV_CONF"] == second.env["PET_RDZV_CONF"]
    assert second.env["PET_RDZV_CONF"] == "read_timeout=600,is_host=0"
    assert master.env["PET_NNODES"] == "3:3"
    assert first.env["PET_RDZV_ENDPOINT"] == f"ctr-worker-0:{first.host_ports['peers']}"
    assert second.env["PET_RDZV_ENDPOINT"] == "ctr-worker-0:23456"


@pytest.mark.parametrize(
    ("framework", "roles", "options", "success"),
    [
        ("tensorflow", {"worker": 2}, {}, FIRST),
        ("pytorch", {"master": 1, "worker": 2}, {}, FIRST),
        ("pytorch", {"worker": 2}, {"elasticPolicy": {}}, ANY),
        ("xgboost", {"master": 1, "worker": 2}, {}, FIRST),
        ("jax", {"worker": 2}, {}, None),
    ],
)
def test_one_replica_ends_the_others_if_the_job_is_cleaned_up(
    topology, framework, roles, options, success
):
    for clean, expected in (("Running", success), ("None", None)):
        (role,) = topology(framework, roles, clean=clean, **options).roles
        assert role.success == expected


def test_dynamic_tensorflow_workers_may_fail(topology):
    options = {"enableDynamicWorker": True}
    roles = topology("tensorflow", {"chief": 1, "ps": 1, "worker": 1}, **options).roles

    assert [role.name for role in roles if role.tolerates_failure] == ["worker"]


@pytest.mark.parametrize(
    ("framework", "roles", "options", "path"),
    [
        ("tensorflow", {"ps": 1}, {}, "roles"),
        ("tensorflow", {"chief": 1, "master": 1}, {}, "roles.master"),
        ("pytorch", {}, {}, "roles"),
        (
            "pytorch",
            {"master": 1, "worker": 2},
            {"elasticPolicy": {"maxReplicas": 2}},
            "roles.worker.replicas",
        ),
        ("pytorch", {"worker": 1}, {"elasticPolicy": {"minReplicas": 2}}, "roles.worker.replicas"),
        ("horovod", {"launcher": 1, "worker": 4}, ELASTIC, "roles.worker.replicas"),
        (
            "mpi",
            {"launcher": 1, "worker": RoleSpec("worker", restart_policy="Never")},
            {},
            "roles.worker.restartPolicy",
        ),
        (
            "mpi",
            {"launcher": 1, "worker": RoleSpec("worker", port=1)},
            {"host": True},
            "roles.worker.port",
        ),
        ("mxnet", {"tuner": 1, "worker": 1}, {}, "roles.tuner"),
        ("xgboost", {"worker": 1}, {}, "roles"),
        ("jax", {}, {}, "roles"),
        ("paddle", {"master": 1}, {}, "roles"),
        ("ray", {"head": 1}, {}, "roles.head"),
        ("ray", {"head": 1, "submitter": 1}, {}, "roles.submitter"),
        ("xdl", {"worker": 2}, {"minFinishWorkNum": 3}, "options.minFinishWorkNum"),
        (
            "xdl",
            {"worker": 2},
            {"minFinishWorkNum": 1, "minFinishWorkRate": 1},
            "options.minFinishWorkNum",
        ),
        ("mars", {"scheduler": 1}, {}, "roles"),
        ("generic", {"a": 1, "b": 1}, {}, "roles"),
        ("generic", {"a": RoleSpec("a", restart_policy="Always")}, {}, "roles"),
        (
            "elasticdl",
            {"master": 1, "worker": RoleSpec("worker", working_dir="/w")},
            {},
            "roles.worker.workingDir",
        ),
        (
            "elasticdl",
            {"master": 1, "ps": RoleSpec("ps", volumes={"d": {"mountPath": "/d", "nfs": {}}})},
            {},
            "roles.ps.volumes.d",
        ),
        ("elasticdl", {"master": 1, "ps": RoleSpec("ps", env={"A": "b=c"})}, {}, "roles.ps.env.A"),
    ],
)
def test_jobs_that_a_framework_rejects(topology, framework, roles, options, path):
    try:
        problems = topology(framework, roles, **options).problems
    except MlgenError as error:
        problems = error.problems

    assert [".".join(map(str, p.path[1:])) for p in problems if not p.warning] == [path]


def test_waits_of_the_job_file_override_those_of_a_framework(topology):
    worker = RoleSpec("worker", wait_for=(WaitFor("server", "name"),))
    roles = {"scheduler": 1, "server": 1, "worker": worker}

    assert (
        row(topology("mxnet", roles).roles[-1])
        == "worker x1 runs with Never after ctr-server-0.ctr"
    )


@pytest.mark.parametrize(("minimum", "hosts"), [(1, 1), (2, 1), (3, 2), (4, 3)])
def test_a_role_waits_for_the_workers_without_which_elastic_training_does_not_start(
    topology, minimum, hosts
):
    """The master is one of the minimum. Worker 0 hosts the rendezvous."""
    master = RoleSpec("master", 1, wait_for=(WaitFor("worker", "name"),))
    roles = {"master": master, "worker": 3}

    laid_out = topology("pytorch", roles, elasticPolicy={"minReplicas": minimum})

    assert [f"ctr-worker-{i}.ctr" for i in range(hosts)] == [
        host for wait in laid_out.roles[0].waits for host in wait.hosts
    ]
