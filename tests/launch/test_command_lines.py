"""Command lines and variables that contradict the job, and the message for each, if any."""

import pytest

import mlgen
from mlgen import frameworks
from mlgen.jobfile.parser import training_job
from mlgen.problems import MlgenError

TORCHRUN, PYTHON = ["torchrun", "train.py"], ["python", "train.py"]
ELASTIC = {"elasticPolicy": {"minReplicas": 2, "maxReplicas": 4}}

ONE_PROCESS = "python starts one process in each replica, but nprocPerNode: 8 sets WORLD_SIZE to 16"
IDLE = "1 worker of 2 would stay idle: 4 processes fill only the other workers, with 4 slots each"


def torchrun(*options):
    return ["torchrun", *options, "train.py"]


def document(framework, roles, spec):
    return {
        "apiVersion": "mlgen.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "j"},
        "spec": {"framework": framework, "image": "example/j:1", "roles": roles, **spec},
    }


def reported(framework, roles, **spec):
    """Return each problem with the code `launch`: path below `spec`, message, and whether fatal."""
    job = document(framework, roles, spec)
    try:
        problems = mlgen.validate(job).warnings
    except MlgenError as error:
        problems = error.problems
    assert all(problem.hint for problem in problems)
    return [
        (".".join(map(str, p.path[1:])), p.message, not p.warning)
        for p in problems
        if p.code == "launch"
    ]


def workers(count=2, gpus=0, **fields):
    resources = {"resources": {"nvidia.com/gpu": gpus}} if gpus else {}
    return {"worker": {"replicas": count, **resources, **fields}}


def main(**fields):
    return {"spec": {"containers": [{"name": "main", **fields}, {"name": "other", "image": "o"}]}}


def test_a_command_line_that_contradicts_a_pytorch_job():
    rows = [
        (
            workers(),
            {"command": torchrun("--nnodes=3")},
            "command.1",
            "--nnodes=3 waits for 3 pods, but the job has 2",
            True,
        ),
        (
            {"master": {}, **workers()},
            {"command": torchrun("--nnodes", "2")},
            "command.1",
            "--nnodes=2 leaves 1 of the 3 replicas unused",
            False,
        ),
        (
            workers(),
            {"command": ["sh", "-c", "exec torchrun --standalone train.py"]},
            "command.2",
            "with --standalone, each of the 2 replicas trains alone",
            False,
        ),
        (
            workers(args=["--node_rank=0", "train.py"]),
            {"command": ["torchrun"], "args": ["train.py"]},
            "roles.worker.args.0",
            "--node_rank=0 is the same in all 2 replicas, which need different ranks",
            True,
        ),
        (
            {
                "master": {"command": torchrun("--node_rank=0")},
                "worker": {"command": torchrun("--node_rank=0")},
            },
            {},
            "roles.worker.command.1",
            "--node_rank=0, but the rank of this replica is 1",
            False,
        ),
        (
            {"master": {"env": {"A": "b"}}, "worker": {"command": torchrun("--node_rank=3")}},
            {},
            "roles.worker.command.1",
            "--node_rank=3, but the rank of this replica is 1",
            False,
        ),
        (
            workers(template=main(resources={"limits": {"amd.com/gpu": "2"}})),
            {"command": TORCHRUN, "options": {"nprocPerNode": 8}},
            "options.nprocPerNode",
            "nprocPerNode: 8 exceeds the number of GPUs per pod, 2",
            False,
        ),
        (
            workers(gpus=4),
            {"command": torchrun("--nproc-per-node=8")},
            "command.1",
            "--nproc_per_node=8 exceeds the number of GPUs per pod, 4",
            False,
        ),
        (
            workers(gpus=8),
            {"command": torchrun("--nproc_per_node=4"), "options": {"nprocPerNode": 8}},
            "command.1",
            "--nproc_per_node=4 overrides nprocPerNode: 8",
            False,
        ),
        (
            workers(),
            {
                "command": ["sh", "-c", "pip install x && exec python3 -u train.py"],
                "options": {"nprocPerNode": 8},
            },
            "command",
            ONE_PROCESS,
            False,
        ),
        (
            workers(),
            {"command": ["deepspeed", "--num_gpus=2", "train.py"]},
            "command.0",
            "with the deepspeed launcher, each of the 2 replicas trains alone",
            False,
        ),
        (
            workers(),
            {"command": ["tune", "run", "full_finetune_distributed", "--config", "llama3"]},
            "command.1",
            "with tune without options of torchrun, each of the 2 replicas trains alone",
            False,
        ),
        (
            workers(),
            {"command": ["sh", "-c", "tune run --nnodes=3 full_finetune_distributed"]},
            "command.2",
            "--nnodes=3 waits for 3 pods, but the job has 2",
            True,
        ),
    ]

    assert [reported("pytorch", roles, **spec) for roles, spec, _, _, _ in rows] == [
        [(path, message, fatal)] for _, _, path, message, fatal in rows
    ]


def test_a_command_line_that_fits_a_pytorch_job():
    rows = [
        ({"master": {}, **workers()}, {"command": torchrun("--nnodes", "2:4")}),
        ({"master": {}, **workers()}, {"command": torchrun("--nnodes=$(PET_NNODES)")}),
        (workers(1), {"command": torchrun("--standalone", "--nnodes=1", "--node_rank=0")}),
        (workers(3), {"command": torchrun("--nnodes=3:4"), "options": ELASTIC}),
        (workers(), {"command": torchrun("--node_rank=$(RANK)")}),
        (workers(), {"command": torchrun("--node_rank=0", "--rdzv-backend=c10d")}),
        (workers(), {"command": torchrun("--node_rank=0"), "env": {"PET_RDZV_BACKEND": "c10d"}}),
        (
            {
                "master": {"command": torchrun("--node_rank=0")},
                "worker": {"command": torchrun("--node_rank=1")},
            },
            {},
        ),
        (workers(gpus=8), {"command": torchrun("--nproc_per_node=8")}),
        (workers(gpus=8), {"command": torchrun("--nproc_per_node=gpu"), "options": {}}),
        (
            workers(gpus=1),
            {
                "command": [
                    "sh",
                    "-c",
                    "nvidia-cuda-mps-control -d; torchrun --nproc_per_node=4 train.py",
                ]
            },
        ),
        (
            workers(gpus=1),
            {
                "options": {"nprocPerNode": 4},
                "env": {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25"},
            },
        ),
        (
            workers(resources={"nvidia.com/mig-1g.5gb": 2}),
            {"command": TORCHRUN, "options": {"nprocPerNode": 2}},
        ),
        (workers(gpus=4), {"options": {"nprocPerNode": 8}, "env": {"PET_NPROC_PER_NODE": "4"}}),
        (workers(), {"command": PYTHON}),
        (workers(), {"command": PYTHON, "options": {"nprocPerNode": 1}}),
        (workers(), {"command": [*PYTHON, "--gpus", "8"], "options": {"nprocPerNode": 8}}),
        (workers(), {"command": ["sh", "-e", "-c", "a"], "options": {"nprocPerNode": 8}}),
        (workers(), {"command": ["bash", "train.sh"], "options": {"nprocPerNode": 8}}),
        (workers(), {"args": ["train.py"], "options": {"nprocPerNode": 8}}),
        (
            workers(),
            {
                "command": ["sh", "-c", "for i in 0 1; do python train.py $i & done; wait"],
                "options": {"nprocPerNode": 2},
            },
        ),
        (workers(), {"command": ["tune", "run", "--nproc_per_node=8", "lora", "--config", "a"]}),
        (workers(1), {"command": ["tune", "run", "lora_single_device", "--config", "a"]}),
        (workers(), {"command": ["tune", "download", "meta-llama/Llama-3.1-8B"]}),
        (workers(), {"command": ["deepspeed", "--no_ssh", "--node_rank=$(RANK)", "train.py"]}),
        (
            workers(gpus=8),
            {
                "command": [
                    "sh",
                    "-c",
                    (
                        "accelerate launch --num_machines 2 --machine_rank $RANK"
                        " --main_process_ip $MASTER_ADDR --num_processes 16 train.py"
                    ),
                ],
            },
        ),
    ]

    assert [reported("pytorch", roles, **spec) for roles, spec in rows] == [[] for _, _ in rows]


def test_replicas_of_a_generic_job_may_train_alone():
    spec = {"command": torchrun("--standalone"), "env": {"RANK": "0", "WORLD_SIZE": "1"}}

    assert reported("generic", workers(3), **spec) == []
    assert reported("generic", workers(3), command=torchrun("--node_rank=0")) == []


SAME = "{} is the same in {} replicas, which need different values"


def test_a_constant_that_replicas_cannot_share():
    rows = [
        ("pytorch", {"master": {}, **workers(3)}, {"RANK": "0"}, [SAME.format("RANK", 4)]),
        (
            "pytorch",
            {"master": {"env": {"RANK": "0"}}, **workers(1, env={"RANK": "0"})},
            {},
            [SAME.format("RANK", 2)],
        ),
        (
            "pytorch",
            {"master": {"env": {"A": "b"}}, **workers(1)},
            {"NODE_RANK": "0"},
            [SAME.format("NODE_RANK", 2)],
        ),
        (
            "pytorch",
            workers(),
            {"WORLD_SIZE": "3"},
            ['WORLD_SIZE is "3", but in this job, it must be 2'],
        ),
        (
            "jax",
            workers(3),
            {"PROCESS_ID": "0", "JAX_NUM_PROCESSES": "2"},
            [
                SAME.format("PROCESS_ID", 3),
                'JAX_NUM_PROCESSES is "2", but in this job, it must be 3',
            ],
        ),
        ("tensorflow", {"ps": {}, **workers()}, {"TF_CONFIG": "{}"}, [SAME.format("TF_CONFIG", 3)]),
        ("paddle", workers(), {"PADDLE_TRAINER_ID": "0"}, [SAME.format("PADDLE_TRAINER_ID", 2)]),
        ("xgboost", {"master": {}, **workers()}, {"RANK": "1"}, [SAME.format("RANK", 3)]),
        ("xdl", workers(), {"TASK_INDEX": "0"}, [SAME.format("TASK_INDEX", 2)]),
        (
            "mxnet",
            {"scheduler": {}, "server": {"replicas": 2}, **workers()},
            {"DMLC_WORKER_ID": "0", "DMLC_NUM_SERVER": "1"},
            [
                'DMLC_NUM_SERVER is "1", but in this job, it must be 2',
                SAME.format("DMLC_WORKER_ID", 2),
            ],
        ),
    ]

    for framework, roles, env, messages in rows:
        problems = reported(framework, roles, env=env)

        assert {message for _, message, _ in problems} == set(messages)
        assert not any(fatal for _, _, fatal in problems)


@pytest.mark.parametrize("host", [False, True])
def test_a_constant_in_a_template_and_with_host_networking(host):
    template = main(env=[{"name": "RANK", "value": "0"}, {"name": "MASTER_PORT", "value": "29500"}])

    assert reported("pytorch", workers(3), template=template, network={"host": host}) == [
        ("template", SAME.format("RANK", 3), False)
    ]


def test_variables_that_replicas_can_have():
    rows = [
        ({"master": {"env": {"RANK": "0"}}, **workers(1, env={"RANK": "1"})}, {}),
        (workers(1), {"env": {"RANK": "0", "WORLD_SIZE": "1"}}),
        (workers(3), {"env": {"RANK": "$(MLGEN_REPLICA_INDEX)", "WORLD_SIZE": "6"}}),
        (workers(3), {"env": {"RANK": {"valueFrom": {"fieldRef": {"fieldPath": "f"}}}}}),
        (workers(3), {"env": {"RANK": "0", "WORLD_SIZE": "1"}, "command": TORCHRUN}),
        (
            workers(3),
            {"env": {"PET_NODE_RANK": "0"}, "command": torchrun("--node_rank=$(RANK)")},
        ),
        (workers(3), {"env": {"PET_NNODES": "2"}, "command": torchrun("--nnodes=3")}),
        (workers(3), {"template": main(env=[{"name": "LOCAL_RANK", "value": "0"}])}),
    ]

    assert [reported("pytorch", roles, **spec) for roles, spec in rows] == [[] for _, _ in rows]


def test_a_launcher_may_read_a_constant():
    spec = {"env": {"RANK": "0"}, "command": torchrun("--node_rank=$(RANK)")}

    assert reported("pytorch", workers(), **spec) == [("env.RANK", SAME.format("RANK", 2), False)]


REFUSED = "mpirun refuses to start {} processes: the job has {} slots, {} on each of {} hosts"

ONE = {"slotsPerWorker": 1}


def test_mpirun_against_slots():
    rows = [
        ("mpirun -np 8 solve", workers(gpus=4), {}, []),
        ("mpirun -np 9 solve", workers(gpus=4), {}, [(REFUSED.format(9, 8, 4, 2), True)]),
        ("mpirun -n 3 solve", workers(), ONE, [(REFUSED.format(3, 2, 1, 2), True)]),
        ("mpirun -n 3 solve", workers(), {}, []),
        ("mpirun -n 3 solve", workers(), {"runLauncherAsWorker": True}, []),
        ("mpirun -n 3 solve", workers(), {"implementation": "Intel"}, []),
        ("mpirun -n 3 --oversubscribe solve", workers(), ONE, []),
        ("mpirun -n 3 --mca rmaps_base_oversubscribe 1 solve", workers(), ONE, []),
        ("mpirun -n 3 -H a.example.com:3 solve", workers(), {}, []),
        ("mpirun -n 3 -map-by slot solve", workers(), ONE, [(REFUSED.format(3, 2, 1, 2), True)]),
        ("mpirun -n 3 --map-by=node solve", workers(), ONE, [(REFUSED.format(3, 2, 1, 2), True)]),
        ("mpirun -n 3 --bynode solve", workers(), ONE, [(REFUSED.format(3, 2, 1, 2), True)]),
        ("mpirun -n 2 --map-by slot solve", workers(), {}, []),
        ("mpirun -n 2 --map-by node solve", workers(gpus=4), {}, []),
        ("mpirun -n 3 --map-by slot:OVERSUBSCRIBE solve", workers(), ONE, []),
        ("mpirun -n 3 --map-by slot:PE=2 solve", workers(), ONE, []),
        ("mpirun -n 3 --map-by slot --oversubscribe solve", workers(), ONE, []),
        ("mpirun -n 3 --hostfile mine solve", workers(), {}, []),
        ("mpirun -n $N solve", workers(), {}, []),
        ("mpirun solve", workers(), {}, []),
        ("mpirun -n 1 a : -n 4 b", workers(), {}, []),
        ("mpirun -n 1 check && mpirun -n 8 solve", workers(gpus=4), {}, []),
        (
            "mpirun -n 1 -usize 9 python spawn.py",
            workers(gpus=4),
            {"implementation": "MPICH"},
            [],
        ),
        (
            "mpirun -n 4 solve",
            workers(gpus=4),
            {},
            [
                (
                    IDLE,
                    False,
                )
            ],
        ),
        (
            "mpirun -n 2 --map-by ppr:1:node torchrun --nproc_per_node 4 a.py",
            workers(gpus=4),
            {},
            [],
        ),
        ("mpirun -n 2 solve", workers(gpus=4), {"slotsPerWorker": 1}, []),
        (
            "mpirun -n 8 python train.py",
            workers(gpus=1),
            {"slotsPerWorker": 4},
            [("each worker has 4 slots, but only 1 GPU", False)],
        ),
        ("mpirun -n 8 lmp", workers(gpus=1), {"slotsPerWorker": 4}, []),
    ]

    for command, of, options, messages in rows:
        roles = {"launcher": {"command": ["sh", "-c", command]}, **of}

        problems = reported("mpi", roles, options=options)

        assert [(message, fatal) for _, message, fatal in problems] == messages


def test_variables_that_place_processes():
    variable = {"name": "OMPI_MCA_rmaps_base_oversubscribe", "value": "1"}
    for fields in ({"env": {variable["name"]: "1"}}, {"template": main(env=[variable])}):
        launcher = {"command": ["mpirun", "-n", "9", "solve"], **fields}
        assert reported("mpi", {"launcher": launcher, **workers()}, options=ONE) == []


def test_horovodrun_and_deepspeed():
    rows = [
        ("horovod", "horovodrun -np 2 --hostfile /etc/mpi/hostfile ./a.py", {}, []),
        ("horovod", "horovodrun -np 4 -H a.example.com:2,b.example.com:2 ./a.py", {}, []),
        ("horovod", "horovodrun --check-build", {}, []),
        (
            "horovod",
            "horovodrun -np 3 --hostfile /etc/mpi/hostfile ./a.py",
            ONE,
            ["horovodrun refuses to start 3 processes: the job has 2 slots, 1 on each of 2 hosts"],
        ),
        (
            "horovod",
            "horovodrun -np 2 ./a.py",
            {},
            ["horovodrun starts all processes in the launcher, not in the workers"],
        ),
        (
            "horovod",
            "mpirun -H localhost:2 -np 2 ./a.py",
            {},
            ["mpirun starts all processes in the launcher, not in the workers"],
        ),
        ("horovod", "horovodrun -np 4 --min-np 2 --host-discovery-script d ./a.py", ELASTIC, []),
        (
            "horovod",
            "horovodrun -np 5 --host-discovery-script d ./a.py",
            ELASTIC,
            ["horovodrun waits for 5 slots, but discovers at most 4, 1 on each of 4 hosts"],
        ),
        ("deepspeed", "deepspeed --num_nodes=2 a.py", {}, []),
        ("deepspeed", "deepspeed --hostfile h --num_nodes=3 a.py", {}, []),
        (
            "deepspeed",
            "deepspeed --num_nodes 1 a.py",
            {},
            ["--num_nodes=1, but the job has 2 workers"],
        ),
    ]

    for framework, command, options, messages in rows:
        roles = {"launcher": {"command": command.split()}, **workers()}

        problems = reported(framework, roles, options={"transport": "ssh", **options})

        assert [message for _, message, _ in problems] == messages


@pytest.mark.parametrize(
    ("framework", "command", "options", "messages"),
    [
        (
            "deepspeed",
            "deepspeed a.py",
            {},
            ["deepspeed connects to the workers over ssh, but transport is kubectl-exec"],
        ),
        ("deepspeed", "deepspeed --launcher openmpi a.py", {}, []),
        ("horovod", "horovodrun -np 2 --hostfile /etc/mpi/hostfile ./a.py", {}, []),
        (
            "horovod",
            "horovodrun -np 2 --hostfile /etc/mpi/hostfile ./a.py",
            {"implementation": "MPICH"},
            ["horovodrun connects to the workers over ssh, but transport is kubectl-exec"],
        ),
        ("horovod", "mpirun -np 2 ./a.py", {}, []),
    ],
)
def test_launchers_that_need_ssh(framework, command, options, messages):
    roles = {"launcher": {"command": command.split()}, **workers()}

    problems = reported(framework, roles, options={"transport": "kubectl-exec", **options})

    assert [message for _, message, _ in problems] == messages


def test_python_with_switches_is_one_process():
    spec = {"command": ["python", "-u", "train.py"], "options": {"nprocPerNode": 8}}

    assert reported("pytorch", workers(), **spec) == [("command", ONE_PROCESS, False)]


@pytest.mark.parametrize("launcher", ["python", "accelerate launch --use_fsdp"])
def test_programs_without_ranks_in_an_elastic_job(launcher):
    name = launcher.split()[0]
    message = f"elasticPolicy requires torchrun, but the command starts train.py with {name}"
    command = [*launcher.split(), "train.py"]

    assert reported("pytorch", workers(), command=command, options=ELASTIC) == [
        ("command", message, False)
    ]


def test_accelerate_with_the_rendezvous_of_an_elastic_job():
    command = ["accelerate", "launch", "--use_fsdp", "--rdzv_backend=c10d", "train.py"]

    assert reported("pytorch", workers(), command=command, options=ELASTIC) == []


MPIJOB = """
apiVersion: {}
kind: MPIJob
metadata: {{name: j}}
spec:
  mpiReplicaSpecs:
    Launcher:
      template: {{spec: {{containers: [{{name: mpi, image: "i:1", command: [mpirun, a]}}]}}}}
    Worker:
      replicas: 2
      template:
        spec:
          containers: [{{name: mpi, image: "i:1", resources: {{limits: {{nvidia.com/gpu: 8}}}}}}]
"""


@pytest.mark.parametrize("version", ["kubeflow.org/v1", "training.kubedl.io/v1alpha1"])
def test_the_operators_default_is_one_slot(version):
    objects = mlgen.render(MPIJOB.format(version))

    (hostfile,) = [
        item["data"]["hostfile"] for item in objects if "hostfile" in item.get("data", {})
    ]
    assert set(hostfile.splitlines()) >= {"j-worker-0 slots=1", "j-worker-1 slots=1"}


@pytest.mark.parametrize(("version", "is_error"), [("v1", False), ("v2beta1", True)])
def test_an_mpijob_of_v1_may_have_another_mpirun(version, is_error):
    resource = MPIJOB.format(f"kubeflow.org/{version}").replace("mpirun, a", 'mpirun, -n, "9", a')

    try:
        problems = mlgen.validate(resource).warnings
    except MlgenError as error:
        problems = error.problems
    assert [not p.warning for p in problems if p.code == "launch"] == [is_error]


def test_deepspeed_with_more_gpus_than_a_worker_has():
    launcher = {"command": ["deepspeed", "--num_gpus", "8", "train.py"]}

    assert reported("deepspeed", {"launcher": launcher, **workers(gpus=4)}) == [
        ("roles.launcher.command.1", "--num_gpus=8, but each worker has 4 GPUs", False)
    ]


NOT_SUBMITTED = "the submitter does not submit a job to the cluster"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("ray job submit -- python train.py", None),
        ("python submit.py", None),
        ("./run", None),
        ("python train.py", NOT_SUBMITTED),
        ("python train.py --address ray://x-head-0.x:10001", None),
        ("python -c JobSubmissionClient(...)", None),
        ("ray start --block --address=$RAY_ADDRESS", NOT_SUBMITTED),
        (
            "ray job submit --no-wait -- python train.py",
            "with --no-wait, the job succeeds before training ends",
        ),
    ],
)
def test_submitter(command, message):
    roles = {"head": {}, "submitter": {"command": command.split()}}

    assert [text for _, text, _ in reported("ray", roles)] == ([message] if message else [])


GPUS, OWN = {"cpu": 1, "nvidia.com/gpu": 4}, {"resources": {"nvidia.com/gpu": 1}}


def test_gpus_of_all_roles_are_for_those_that_compute():
    rows = [
        ("mpi", {"launcher": {}, "worker": {}}, {}, ["worker"]),
        ("mpi", {"launcher": OWN, "worker": {}}, {}, ["launcher", "worker"]),
        (
            "horovod",
            {"launcher": {}, "worker": {}},
            {"runLauncherAsWorker": True},
            ["launcher", "worker"],
        ),
        ("deepspeed", {"launcher": {}, "worker": {}}, {}, ["worker"]),
        ("ray", {"head": {}, "worker": {}, "submitter": {}}, {}, ["worker"]),
        ("ray", {"head": {}, "submitter": {}}, {}, ["head"]),
        ("tensorflow", {"chief": {}, "ps": {}, "evaluator": {}}, {}, ["chief", "evaluator"]),
        ("mxnet", {"scheduler": {}, "server": {}, "worker": {}}, {}, ["worker"]),
        ("xdl", {"scheduler": {}, "ps": {}, "worker": {}}, {}, ["worker"]),
        ("mars", {"scheduler": {}, "webservice": {}, "worker": {}}, {}, ["worker"]),
        ("paddle", {"master": {}, "worker": {}}, {}, ["worker"]),
        ("elasticdl", {"master": {}, "ps": {}, "worker": {}}, {}, ["worker"]),
        ("pytorch", {"master": {}, "worker": {}}, {}, ["master", "worker"]),
        ("generic", {"a": {}, "b": {}}, {}, ["a", "b"]),
    ]

    for framework, roles, options, with_gpus in rows:
        job = training_job(document(framework, roles, {"resources": GPUS, "options": options}))

        prepared = frameworks.without_idle_gpus(job)

        assert [name for name, spec in prepared.roles.items() if spec.gpus] == with_gpus
        for name, spec in prepared.roles.items():
            assert spec.without_gpus == (name not in with_gpus)
            assert spec.resources["limits"].get("cpu") == (None if roles[name] == OWN else "1")


def test_gpus_in_a_template_stay_with_a_launcher():
    spec = {
        "resources": {"nvidia.com/gpu": 4},
        "template": main(resources={"limits": {"nvidia.com/gpu": 1}}),
    }
    job = training_job(document("mpi", {"launcher": {}, "worker": {}}, spec))

    launcher = frameworks.without_idle_gpus(job).roles["launcher"]

    assert (launcher.resources, launcher.gpus) == ({}, True)
