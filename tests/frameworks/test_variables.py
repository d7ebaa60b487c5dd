"""The variables and arguments through which each framework's replicas find each other."""

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
            "NVIDIA_VISIBLE_DEVICES": "",
            "NVIDIA_DRIVER_CAPABILITIES": "",
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


@pytest.mark.parametrize(("job", "variables"), VARIABLES.values(), ids=VARIABLES)
def test_variables(topology, job, variables):
    framework, role, roles, *options = job

    layout = topology(framework, roles, **dict(*options))

    assert next(r.env for r in layout.roles if r.name == role) == variables


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
        arguments={"use_async": True},
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
    }
    assert role.workload == "elasticdl-ctr-master"
    rights = {(right.resource, *right.names) for right in role.rights}
    stand_in = "elasticdl-ctr-master"
    assert rights == {("pods",), ("services",), ("pods", stand_in), ("pods/status", stand_in)}


def test_elasticdl_leaves_a_cluster_spec_to_the_user(topology):
    laid_out = topology("elasticdl", {"master": 1, "ps": 1}, arguments={"cluster_spec": "own.py"})

    (role,), (warning,) = laid_out.roles, laid_out.warnings
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

    assert len(laid_out.warnings) == warnings
    assert laid_out.roles[0].mounts
