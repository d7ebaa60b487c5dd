"""The variables and arguments through which each framework's replicas find each other."""

from dataclasses import replace

import pytest

from mlgen.jobfile.model import RoleSpec
from mlgen.topology import INDEX

WORKERS = {"worker": 2}
CLUSTER = '"ps":["ctr-ps-0.ctr:2222"],"worker":["ctr-worker-0.ctr:2222"]'
LEADER = "ctr-worker-0.ctr"

VARIABLES = {
    "tensorflow": (
        ("tensorflow", "worker", {"ps": 1, "worker": 1}),
        {
            "TF_CONFIG": f'{{"cluster":{{{CLUSTER}}},"task":{{"type":"worker","index":{INDEX}}},'
            '"environment":"cloud"}'
        },
    ),
    "tensorflow-chief-without-the-evaluator": (
        ("tensorflow", "chief", {"chief": 1, "evaluator": 1, "ps": 1}),
        {
            "TF_CONFIG": '{"cluster":{"chief":["ctr-chief-0.ctr:2222"],"ps":["ctr-ps-0.ctr:2222"]},'
            '"task":{"type":"chief","index":$(MLGEN_REPLICA_INDEX)},"environment":"cloud"}'
        },
    ),
    "tensorflow-evaluator": (
        ("tensorflow", "evaluator", {"chief": 1, "evaluator": 1}),
        {
            "TF_CONFIG": '{"cluster":{"chief":["ctr-chief-0.ctr:2222"],'
            '"evaluator":["ctr-evaluator-0.ctr:2222"]},'
            '"task":{"type":"evaluator","index":$(MLGEN_REPLICA_INDEX)},"environment":"cloud"}'
        },
    ),
    "tensorflow-sparse-worker": (
        ("tensorflow", "worker", {"ps": 1, "worker": 2}, {"enableDynamicWorker": True}),
        {
            "TF_CONFIG": f'{{"cluster":{{"worker":{{"{INDEX}":"ctr-worker-{INDEX}.ctr:2222"}},'
            f'"ps":["ctr-ps-0.ctr:2222"]}},"task":{{"type":"worker","index":{INDEX}}}}}'
        },
    ),
    "tensorflow-sparse-ps": (
        ("tensorflow", "ps", {"ps": 1, "worker": 2}, {"enableDynamicWorker": True}),
        {
            "TF_CONFIG": f'{{"cluster":{{"worker":{{}},"ps":["ctr-ps-{INDEX}.ctr:2222"]}},'
            f'"task":{{"type":"ps","index":{INDEX}}}}}'
        },
    ),
    "tensorflow-single": (("tensorflow", "worker", {"worker": 1}), {}),
    "pytorch": (
        ("pytorch", "worker", WORKERS, {"nprocPerNode": 4}),
        {
            "PYTHONUNBUFFERED": "1",
            "MASTER_PORT": "23456",
            "PET_MASTER_PORT": "23456",
            "MASTER_ADDR": "ctr-worker-0",
            "PET_MASTER_ADDR": "ctr-worker-0",
            "WORLD_SIZE": "8",
            "RANK": INDEX,
            "PET_NPROC_PER_NODE": "4",
            "PET_NODE_RANK": INDEX,
            "PET_NNODES": "2",
        },
    ),
    "pytorch-elastic": (
        (
            "pytorch",
            "worker",
            WORKERS,
            {
                "elasticPolicy": {
                    "minReplicas": 1,
                    "maxReplicas": 4,
                    "maxRestarts": 3,
                    "rdzvId": "r",
                    "rdzvConf": {"a": "1", "b": "2"},
                }
            },
        ),
        {
            "PYTHONUNBUFFERED": "1",
            "PET_NPROC_PER_NODE": "auto",
            "PET_RDZV_ENDPOINT": "ctr-worker-0:23456",
            "PET_RDZV_BACKEND": "c10d",
            "PET_NNODES": "1:4",
            "PET_RDZV_ID": "r",
            "PET_MAX_RESTARTS": "3",
            "PET_RDZV_CONF": "read_timeout=600,a=1,b=2",
        },
    ),
    "mpi": (
        ("mpi", "launcher", {"launcher": 1, "worker": 2}),
        {
            "OMPI_MCA_plm_rsh_agent": "/etc/mpi/kubexec.sh",
            "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
            "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
            "PRTE_MCA_plm_ssh_agent": "$(OMPI_MCA_plm_rsh_agent)",
            "PRTE_MCA_prte_default_hostfile": "$(OMPI_MCA_orte_default_hostfile)",
            "PRTE_MCA_plm_ssh_no_tree_spawn": "$(OMPI_MCA_plm_rsh_no_tree_spawn)",
        },
    ),
    "mpi-intel-ssh": (
        (
            "mpi",
            "launcher",
            {"launcher": RoleSpec("launcher", gpus=True), "worker": 2},
            {"transport": "ssh", "implementation": "Intel", "slotsPerWorker": 4},
        ),
        {
            "I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile",
            "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "-o ConnectionAttempts=10",
            "I_MPI_PERHOST": "4",
        },
    ),
    "mxnet": (
        ("mxnet", "worker", {"worker": 1}, {"tunerServerKeys": {"worker": "2080ti"}}),
        {
            "MX_CONFIG": '{"cluster":{"worker":[{"url":"ctr-worker-0.ctr","port":9091}]},'
            f'"labels":{{"worker":"2080ti"}},"task":{{"type":"worker","index":{INDEX}}}}}',
            "DMLC_PS_ROOT_PORT": "0",
            "DMLC_PS_ROOT_URI": "",
            "DMLC_NUM_SERVER": "0",
            "DMLC_NUM_WORKER": "1",
            "DMLC_ROLE": "worker",
            "DMLC_USE_KUBERNETES": "1",
            "DMLC_WORKER_ID": INDEX,
        },
    ),
    "xgboost-single": (
        ("xgboost", "master", {"master": 1}),
        {
            "MASTER_PORT": "9999",
            "MASTER_ADDR": "ctr-master-0.ctr",
            "WORLD_SIZE": "1",
            "RANK": INDEX,
            "PYTHONUNBUFFERED": "1",
        },
    ),
    "jax": (
        ("jax", "worker", WORKERS),
        {
            "PYTHONUNBUFFERED": "1",
            "COORDINATOR_PORT": "6666",
            "COORDINATOR_ADDRESS": LEADER,
            "NUM_PROCESSES": "2",
            "PROCESS_ID": INDEX,
            "JAX_COORDINATOR_ADDRESS": f"{LEADER}:6666",
            "JAX_NUM_PROCESSES": "2",
            "JAX_PROCESS_ID": INDEX,
        },
    ),
    "paddle": (
        ("paddle", "worker", WORKERS),
        {
            "PYTHONUNBUFFERED": "1",
            "PADDLE_JOB_ID": "ctr",
            "PADDLE_NNODES": "2",
            "POD_IP": f"ctr-worker-{INDEX}.ctr",
            "PADDLE_MASTER": f"{LEADER}:36543",
            "PADDLE_RANK": INDEX,
        },
    ),
    "paddle-ps": (
        ("paddle", "master", {"master": 1, "worker": 1}),
        {
            "PYTHONUNBUFFERED": "1",
            "PADDLE_JOB_ID": "ctr",
            "PADDLE_NNODES": "2",
            "POD_IP": f"ctr-master-{INDEX}.ctr",
            "PADDLE_MASTER": "ctr-master-0.ctr:36543",
            "PADDLE_SERVER_NUM": "1",
        },
    ),
    "xdl": (
        ("xdl", "worker", {"worker": 1}, {"zkAddr": "zfs://zk:2181/xdl/"}),
        {
            "TASK_NAME": "worker",
            "TASK_INDEX": INDEX,
            "XDL_CONFIG": '{"cluster":{"worker":["ctr-worker-0.ctr:2222"]},'
            f'"task":{{"type":"worker","index":{INDEX}}}}}',
            "ZK_ADDR": "zfs://zk:2181/xdl/ctr",
        },
    ),
    "generic": (
        ("generic", "a-b", {"a-b": RoleSpec("a-b", 2, port=5)}),
        {
            "MLGEN_ROLE": "a-b",
            "MLGEN_A_B_REPLICAS": "2",
            "MLGEN_A_B_HOSTS": "ctr-a-b-0.ctr:5,ctr-a-b-1.ctr:5",
        },
    ),
    "generic-without": (("generic", "a", {"a": 1}, {"addresses": False}), {}),
}


def test_variables(topology):
    for job, variables in VARIABLES.values():
        framework, role, roles, *options = job

        layout = topology(framework, roles, **dict(*options))

        assert next(r.env for r in layout.roles if r.name == role) == variables


@pytest.mark.parametrize(
    ("role", "options", "is_set"),
    [
        ({"command": ("accelerate", "launch", "train.py")}, {}, True),
        ({"resources": {"limits": {"nvidia.com/gpu": "1"}}, "gpus": True}, {}, True),
        ({}, {"nprocPerNode": 1}, True),
        ({}, {"nprocPerNode": 2}, False),
        ({}, {"nprocPerNode": "cpu"}, False),
        ({"resources": {"limits": {"nvidia.com/gpu": "8"}}, "gpus": True}, {}, False),
        ({"resources": {"limits": {"nvidia.com/mig-1g.5gb": "2"}}, "gpus": True}, {}, False),
        ({"replicas": 1}, {}, False),
        ({}, {"elasticPolicy": {}}, False),
    ],
)
def test_the_only_process_of_a_pod_has_a_local_rank(topology, role, options, is_set):
    worker = RoleSpec("worker", **{"replicas": 2, **role})

    (layout,) = topology("pytorch", {"worker": worker}, **options).roles

    assert layout.env.get("LOCAL_RANK") == ("0" if is_set else None)


@pytest.mark.parametrize(
    ("command", "endpoint"),
    [
        ("tune run --nproc_per_node=8 lora --config a", "ctr-worker-0:23456"),
        ("tune run --nnodes=2 --rdzv-endpoint=$(MASTER_ADDR):29500 lora", "ctr-worker-0:29500"),
        ("torchrun train.py", None),
    ],
)
def test_torchtune_has_an_endpoint(topology, command, endpoint):
    worker = RoleSpec("worker", 2, command=tuple(command.split()))

    (layout,) = topology("pytorch", {"worker": worker}).roles

    assert layout.env.get("PET_RDZV_ENDPOINT") == endpoint


def test_mars_workers_know_their_resources_and_stores(topology):
    resources = {"requests": {"cpu": "1500m"}, "limits": {"cpu": "9", "memory": "1Gi"}}
    worker = RoleSpec("worker", 1, resources=resources)
    policy = {"workerCachePercentage": 50, "spillDirs": ["/a", "/b"], "lockFreeFileIO": False}
    roles = {"scheduler": 1, "worker": worker}

    scheduler, role = topology("mars", roles, workerMemoryTuningPolicy=policy).roles

    assert not {"MARS_CPU_TOTAL", "MARS_MEMORY_TOTAL"} & set(scheduler.env)
    assert role.env["MARS_CPU_TOTAL"] == "2"
    assert role.env["MARS_MEMORY_TOTAL"] == str(1 << 30)
    assert role.env["MARS_CACHE_MEM_SIZE"] == str(1 << 29)
    assert role.env["MARS_SPILL_DIRS"] == "/a,/b"
    assert role.env["MARS_LOCK_FREE_FILEIO"] == "0"
    assert role.env["MARS_CLUSTER_DETAIL"] == (
        '{"cluster":{"scheduler":["ctr-scheduler-0.ctr:11111"]},"task":{"type":"worker",'
        f'"index":{INDEX},"resources":{{"cpu_procs":2,"phy_mem":1073741824}}}}}}'
    )
    assert [(m.path, m.volume.memory, m.volume.size) for m in role.mounts] == [
        ("/a", False, None),
        ("/b", False, None),
        ("/dev/shm", True, str(1 << 29)),
    ]


def test_the_size_of_the_plasma_store_overrides_the_percentage(topology):
    policy = {"workerCachePercentage": 50, "workerCacheSize": "2Gi"}

    _, role = topology("mars", {"scheduler": 1, "worker": 1}, workerMemoryTuningPolicy=policy).roles

    assert role.env["MARS_CACHE_MEM_SIZE"] == str(2 << 30)


MASTER = "elasticdl.python.master.main"


def test_elasticdl_passes_ps_and_workers_to_the_master(topology):
    worker = RoleSpec(
        "worker",
        3,
        image="w:1",
        env={"A": "b"},
        resources={"requests": {"cpu": "1", "memory": "1.5Mi", "nvidia.com/gpu": "2"}},
        volumes={"d": {"mountPath": "/d", "pvc": "c", "subPath": "s"}},
    )
    (role,) = topology(
        "elasticdl",
        {"master": 1, "ps": 1, "worker": worker},
        distributionStrategy="ParameterServerStrategy",
        podPriority={"worker": "high=0.5"},
        arguments={"use_async": True, "model_def": "a.model"},
    ).roles

    arguments = dict(zip(role.args[::2], role.args[1::2], strict=True))
    assert arguments == {
        "--job_name": "ctr",
        "--namespace": "$(MY_POD_NAMESPACE)",
        "--distribution_strategy": "ParameterServerStrategy",
        "--num_ps_pods": "1",
        "--num_workers": "3",
        "--worker_image": "w:1",
        "--worker_resource_request": "cpu=1,memory=2Mi,gpu=2",
        "--worker_pod_priority": "high=0.5",
        "--volume": "claim_name=c,mount_path=/d,sub_path=s",
        "--envs": "A=b",
        "--cluster_spec": "elasticdl_pods.py",
        "--use_async": "True",
        "--model_def": "a.model",
    }
    assert role.workload == "elasticdl-ctr-master"
    rights = {(right.resource, *right.names) for right in role.rights}
    stand_in = "elasticdl-ctr-master"
    assert rights == {("pods",), ("services",), ("pods", stand_in), ("pods/status", stand_in)}


@pytest.mark.parametrize("given", [{}, {"cluster_spec": ""}])
def test_elasticdl_s_cluster_spec_is_mlgen_s_if_it_is_empty(topology, given):
    arguments = {"model_def": "a.model", **given}
    laid_out = topology("elasticdl", {"master": 1, "ps": 1}, arguments=arguments)

    (role,) = laid_out.roles
    assert role.args[role.args.index("--cluster_spec") + 1] == "elasticdl_pods.py"
    assert role.mounts
    assert not laid_out.problems


def test_elasticdl_leaves_a_cluster_spec_to_the_user(topology):
    laid_out = topology(
        "elasticdl",
        {"master": 1, "ps": 1},
        arguments={"cluster_spec": "own.py", "model_def": "a.model"},
    )

    (role,), (warning,) = laid_out.roles, laid_out.problems
    assert role.args[role.args.index("--cluster_spec") + 1] == "own.py"
    assert not role.mounts
    assert "the pod elasticdl-ctr-master does not exist" in warning.message


@pytest.mark.parametrize(
    ("args", "warnings"),
    [("", 1), ("--cluster_spec=elasticdl_pods.py", 0), ("--distribution_strategy=Local", 0)],
)
def test_elasticdl_warns_of_a_command_without_a_cluster_spec(args, warnings, topology):
    master = RoleSpec("master", 1, command=("python", "-m", MASTER), args=tuple(args.split()))

    laid_out = topology("elasticdl", {"master": master})

    assert len(laid_out.problems) == warnings
    assert laid_out.roles[0].mounts


GPU = RoleSpec("worker", 2, resources={"limits": {"nvidia.com/gpu": "1"}}, gpus=True)
MIG = RoleSpec("ps", resources={"limits": {"example.com/accelerator": "1"}})
CLAIMED = RoleSpec("ps", templates=({"spec": {"resourceClaims": [{"name": "gpu"}]}},))
OWN = RoleSpec("ps", env={"NVIDIA_VISIBLE_DEVICES": "all"})
SAME_IN_TEMPLATE = RoleSpec(
    "ps",
    image="example/ps:cpu",
    templates=({"spec": {"containers": [{"name": "main", "image": "example/gpu:1"}]}},),
)
OWN_IN_TEMPLATE = RoleSpec(
    "ps",
    templates=(
        {"spec": {"containers": [{"name": "main", "env": [{"name": "NVIDIA_VISIBLE_DEVICES"}]}]}},
    ),
)


@pytest.mark.parametrize(
    ("worker", "ps", "hidden"),
    [
        (GPU, RoleSpec("ps"), ["chief", "ps"]),
        (GPU, MIG, ["chief"]),
        (GPU, CLAIMED, ["chief"]),
        (GPU, OWN, ["chief"]),
        (GPU, OWN_IN_TEMPLATE, ["chief"]),
        (RoleSpec("worker", 2), RoleSpec("ps"), []),
        (GPU, RoleSpec("ps", image="example/ps:cpu"), ["chief"]),
        (replace(GPU, image="example/gpu:1"), SAME_IN_TEMPLATE, ["ps"]),
        (replace(GPU, image="example/gpu:1"), RoleSpec("ps"), []),
    ],
)
def test_gpus_are_hidden_from_roles_without_any(topology, worker, ps, hidden):
    roles = topology("tensorflow", {"chief": 1, "ps": ps, "worker": worker}).roles

    assert [role.name for role in roles if "NVIDIA_VISIBLE_DEVICES" in role.env] == hidden


@pytest.mark.parametrize(
    ("command", "wrapped"),
    [
        (("ray", "job", "submit", "--", "python", "train.py"), True),
        (("ray", "job", "submit", "--working-dir", ".", "--", "python", "train.py"), True),
        (("ray", "job", "submit", "--submission-id=a", "--", "python", "train.py"), False),
        (("ray", "job", "submit", "--address", "http://a:1", "--", "python", "train.py"), False),
        (("sh", "-c", "ray job submit -- python train.py"), False),
    ],
)
def test_a_new_submitter_follows_the_first_submission(topology, command, wrapped):
    submitter = RoleSpec("submitter", command=command)
    role = topology("ray", {"head": 1, "worker": 1, "submitter": submitter}).roles[-1]

    assert role.wrapper == (("sh", "/mlgen/ray/submit-ray.sh") if wrapped else ())
    assert ("MLGEN_SUBMISSION" in role.env) == wrapped == bool(role.mounts)
