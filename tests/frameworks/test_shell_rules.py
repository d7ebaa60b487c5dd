"""How command lines start programs: what is reported, and jobs that look alike and are right."""

import pytest
from support import ROOT

from mlgen import MlgenError, validate
from mlgen.documents.files import Text
from mlgen.pipeline import attempt
from mlgen.result import Options

JOB = {"apiVersion": "mlgen.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "bert"}}
PYTORCH = {"framework": "pytorch", "image": "bert:1", "roles": {"worker": {"replicas": 2}}}
OF_CLUSTER = {"rights", "missing-api"}


def reported(**spec):
    """The problems of a job: path, message and hint."""
    try:
        found = validate({**JOB, "spec": {**PYTORCH, **spec}}).problems
    except MlgenError as error:
        found = error.problems
    return [
        (".".join(map(str, each.path[1:])), each.message, each.hint)
        for each in found
        if each.code not in OF_CLUSTER
    ]


def script(text, **files):
    """A job whose pods run a script with bash."""
    volumes = {"v": {"mountPath": "/v", "files": files}} if files else {}
    return {"command": ["bash", "-c", text], "volumes": volumes}


def mpi(*words, **options):
    roles = {"launcher": {"command": [*words]}, "worker": {"replicas": 2}}
    return {"framework": "mpi", "options": {"slotsPerWorker": 4, **options}, "roles": roles}


def ray(**roles):
    every = {"head": {}, "worker": {}, "submitter": {"command": SUBMIT}}
    return {"framework": "ray", "roles": {**every, **roles}}


def workers(*words):
    job = mpi("mpirun", "-np", "8", "python", "a.py", transport="ssh")
    return {**job, "roles": {**job["roles"], "worker": {"replicas": 2, "command": [*words]}}}


SUBMIT = ["ray", "job", "submit", "--", "python", "tune.py", "--lr", "1"]

RAY_HEAD = "ray start --head --dashboard-host=0.0.0.0"

SUCCESS = "so Kubernetes counts a failed training as a success"

WRONG = [
    (
        {"command": ["torchrun", "--num_nodes=2", "a.py"]},
        "command.1",
        "torchrun has no option --num_nodes",
    ),
    (
        {"command": ["torchrun", "--nproc_per_node", "a.py"]},
        "command.1",
        '"" is not a value of --nproc_per_node of torchrun',
    ),
    (
        script("pip install -r a.txt torchrun a.py --lr 1"),
        "command.2",
        "torchrun is an argument of pip here, not a command",
    ),
    (
        script("python a.py --rank $OMPI_COMM_WORLD_RANK"),
        "command.2",
        "mpirun sets OMPI_COMM_WORLD_RANK, so it is empty in a pod",
    ),
    (
        ray(
            submitter={
                "command": [*SUBMIT[:3], "--address=http://bert-head-0.bert:6379", *SUBMIT[3:]]
            }
        ),
        "roles.submitter.command.3",
        "--address=http://bert-head-0.bert:6379, but the head listens on port 8265",
    ),
    (
        script("torchrun a.py & echo started"),
        "command.2",
        "the shell does not wait for torchrun, so the container ends with the script",
    ),
    (
        script("bash /v/x", x="python -m pkg.train 2>&1 | tee log\n"),
        "volumes.v.files.x",
        f"the shell exits with the status of the last command of a pipe, tee, {SUCCESS}",
    ),
    (
        script("./train.sh || true"),
        "command.2",
        f"after a failure, the shell runs true, {SUCCESS}",
    ),
]


def test_a_program_that_does_not_start_or_end_as_meant():
    for spec, path, message in WRONG:
        found = reported(**spec)

        assert (path, message) in [(at, text) for at, text, _ in found]


RIGHT = [
    script("cat > /tmp/x <<'END'\ntorchrun\n  --lr 1\nEND\nexec torchrun a.py"),
    script('ARGS=(\n  --lr 1\n  --bs 4\n)\ntorchrun a.py "${ARGS[@]}"'),
    script('ARGS="\n --lr 1\n --bs 4\n"\ntorchrun a.py $ARGS'),
    script("torchrun \\\n  --nnodes=2 \\\n  a.py \\\n  --lr 1\n"),
    script("case $1 in\n  -h|--help) echo;;\n  *) torchrun a.py;;\nesac"),
    script("if [[ -n $A\n  && -d $(dirname /b) ]]; then\n  torchrun a.py\nfi"),
    script("[[ $A =~ ^a(b)\\ +c ]] && torchrun a.py"),
    script("if ((\n  RANK > 0\n  && RANK < 9 )); then torchrun a.py; fi"),
    script("ARGS=(\n  $(cat args)\n  --lr 1\n)\ntorchrun a.py"),
    script("cat > /tmp/x <<END-OF-FILE\na\n  --lr 1\nEND-OF-FILE\ntorchrun a.py"),
    script("cat > /tmp/x <<!\na\n  --lr 1\n!\ntorchrun a.py"),
    script("tr \\  _ < list > names\ntorchrun a.py"),
    script("set -euo pipefail\ntorchrun a.py 2>&1 | tee log\n"),
    script("torchrun a.py | tee log; exit ${PIPESTATUS[0]}"),
    script("torchrun a.py & wait $!"),
    script("trap 'kill $PID' TERM; torchrun a.py & PID=$!; wait $PID"),
    script("vllm serve m & sleep 30; python a.py"),
    script("python server.py & torchrun a.py"),
    script("nvidia-smi || true; torchrun a.py"),
    script("torchrun a.py || sleep infinity"),
    script("sleep infinity"),
    script("torchrun a.py && touch /out/done"),
    script('[ -n "$SLURM_JOB_ID" ] && echo; torchrun a.py --id ${SLURM_JOB_ID:-0}'),
    script('[ "x$SLURM_JOB_ID" = x ] || srun hostname; torchrun a.py'),
    script('if test "$SLURM_NNODES"; then N=$SLURM_NNODES; fi; torchrun a.py'),
    script('echo "in Slurm: $SLURM_JOB_ID"; torchrun a.py'),
    script("torchrun a.py $SM_MODEL_DIR") | {"envFrom": [{"configMapRef": {"name": "dirs"}}]},
    script("torchrun a.py || exit 1; echo done"),
    script("cd /a && torchrun a.py && torchrun b.py || exit 1\necho done"),
    script("bash /v/x", x="set -e\npython /v/y.py\nexec torchrun a.py\n", **{"y.py": ""}),
    script("pip install -r a.txt accelerate deepspeed && exec torchrun a.py"),
    script('set -- torchrun a.py; exec "$@"'),
    script("echo \"it's\"; exec torchrun a.py --x \"it's\" --y 'a b'"),
    script('X="$(python -c \'print("a")\')"; exec torchrun a.py --x "$X"'),
    script("for i in 0 1; do python a.py $i & p=$!; done; wait $p"),
    script("if command -v srun; then srun a; else torchrun a.py; fi"),
    {"command": ["python", "-m", "accelerator.commands.launcher", "--x=1"]},
    {"command": ["torchrun", "--nnodes=2", "--rdzv-backend=zeus", "--rdzv-endpoint=z:1", "a.py"]},
    {"command": ["torchrun", "a.py", "--prompt", "a \N{EN DASH} b"]},
    workers("/usr/sbin/sshd", "-De"),
    workers("bash", "-c", "service ssh start && sleep infinity"),
    mpi("mpirun", "-np", "8", "-x", "A=1", "./bind.sh", "python", "a.py"),
    mpi("mpirun", "-np", "8", "bash", "-c", "exec a $OMPI_COMM_WORLD_RANK"),
    ray(
        head={"command": ["bash", "-c", f"{RAY_HEAD} --block --port=6380 --dashboard-port=8270"]},
        worker={"command": ["ray", "start", "--block", "--address=bert-head-0.bert:6380"]},
        submitter={"command": [*SUBMIT[:3], "--address=http://bert-head-0.bert:8270", *SUBMIT[3:]]},
    ),
    {"command": ["torchrun", "--no-python", "bash", "run.sh"]},
    {"command": ["torchrun", "-m", "pkg.train", "--lr", "1"]},
    {"command": ["torchrun", "--nproc_per", "2", "a.py"]},
    {"command": ["torchrun", "--a-future-option", "2", "a.py"]},
    {"command": ["torchrun", "--help"]},
    {"command": ["accelerate", "launch", "--mixed-precision", "bf16", "--cpu", "-m", "a"]},
    {**mpi("mpirun", "./a", ":", "-np", "2", "./b")},
    mpi("mpirun", "-n", "8", "-ppn", "4", "-genv", "A", "1", "./a", implementation="MPICH"),
    mpi("mpirun", "-np", "2", "-npernode", "1", "torchrun", "--nproc-per-node=4", "a.py"),
    {**mpi("mpirun", "--allow-run-as-root", "./a"), "security": {"runAsUser": 0}},
    {
        **mpi("mpirun", "./a"),
        "security": {"runAsUser": 0},
        "envFrom": [{"configMapRef": {"name": "ompi"}}],
    },
    ray(),
    ray(head={"command": ["bash", "-c", f"{RAY_HEAD}; python serve.py"]}),
    ray(submitter={"command": ["ray", "job", "submit", "python", "a.py", "--working-dir", "."]}),
]


def test_jobs_that_look_alike_are_right():
    for spec in RIGHT:
        policy = {"runPolicy": {"cleanPodPolicy": "All"}}
        assert reported(**spec, **(policy if "roles" in spec else {})) == []


def program(text, **spec):
    """A job whose pods run an inline program with python."""
    volumes = {"v": {"mountPath": "/v", "files": {"a.py": text}}}
    return {"command": ["python", "/v/a.py"], "volumes": volumes, **spec}


JAX = {"framework": "jax"}
TENSORFLOW = {"framework": "tensorflow"}
STRATEGY = "tf.distribute.MultiWorkerMirroredStrategy()"
FILE = "volumes.v.files.a.py"
ALONE = "with {}, each of the 2 replicas trains alone"
UNSET = "{} reads variables that framework: {} does not set"
HOSTS = {"v": {"mountPath": "/v", "files": {"hosts": "bert-worker-0.bert slots=4\n"}}}
TWO = {"nvidia.com/gpu": 2}

CONTRADICTIONS = [
    (
        program("jax.distributed.initialize(num_processes=4)", **JAX),
        FILE,
        'initialize.num_processes is "4", but in this job, it must be 2',
    ),
    (
        program('jax.distributed.initialize("a:1", 2, process_id=0)', **JAX),
        FILE,
        "initialize.process_id is the same in 2 replicas, which need different values",
    ),
    (
        program('dist.init_process_group("gloo", init_method="tcp://localhost:1")'),
        FILE,
        "init_process_group.init_method is localhost, so each pod connects only to itself",
    ),
    (program(STRATEGY), FILE, UNSET.format("MultiWorkerMirroredStrategy(", "pytorch")),
    (
        program('dist.init_process_group("gloo")', **TENSORFLOW),
        FILE,
        UNSET.format('init_process_group("gloo")', "tensorflow"),
    ),
    (program("hvd.init()"), FILE, UNSET.format("hvd.init()", "pytorch")),
    (
        {**TENSORFLOW, "command": ["a"], "env": {"TF_CONFIG": "{'cluster': {}}"}},
        "env.TF_CONFIG",
        "TF_CONFIG is not JSON",
    ),
    (
        {**JAX, "command": ["torchrun", "a.py"]},
        "command.0",
        ALONE.format("torchrun and framework: jax"),
    ),
    (
        {"command": ["python", "-m", "paddle.distributed.launch", "a.py"]},
        "command.2",
        ALONE.format("fleetrun and framework: pytorch"),
    ),
    (
        {"command": ["horovodrun", "-np", "2", "python", "a.py"]},
        "command.0",
        ALONE.format("the horovodrun launcher"),
    ),
    (
        {"command": ["tune", "run", "--nnodes=2", "lora_single_device"]},
        "command.1",
        ALONE.format("lora_single_device"),
    ),
    (
        {"command": ["torchrun", "--nnodes=2", "--node_rank=$(N)", "a.py"]}
        | {"env": {"N": {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}}},
        "command.2",
        "--node_rank=$(N) is not a number",
    ),
    (
        {"command": ["torchrun", "--rdzv-backend=static", "a.py"]}
        | {"options": {"elasticPolicy": {"minReplicas": 2, "maxReplicas": 4}}},
        "command.1",
        "--rdzv_backend=static cannot be used with elasticPolicy, because it needs ranks",
    ),
    (
        {"command": ["accelerate", "launch", "--gpu_ids=0,1,2", "a.py"], "resources": TWO},
        "command.2",
        "--gpu_ids=0,1,2 exceeds the number of GPUs per pod, 2",
    ),
    (
        {"command": ["torchrun", "a.py"], "env": {"PET_NPROC_PER_NODE": "8"}, "resources": TWO},
        "env.PET_NPROC_PER_NODE",
        'PET_NPROC_PER_NODE is "8", but in this job, it must be 2',
    ),
    (
        {"command": ["torchrun", "--master_addr=bert-master-0", "a.py"]},
        "command.1",
        "--master_addr is bert-master-0, which is not a replica of this job",
    ),
    (
        {**JAX, "command": ["a"], "env": {"JAX_COORDINATOR_ADDRESS": "bert-worker-0.bert"}},
        "env.JAX_COORDINATOR_ADDRESS",
        "JAX_COORDINATOR_ADDRESS is bert-worker-0.bert, without a port",
    ),
    (
        mpi("mpirun", "-np", "8", "--map-by", "ppr:2:node", "./a"),
        "roles.launcher.command.1",
        "mpirun refuses to start 8 processes: the job has room for 4, 2 on each of 2 hosts",
    ),
    (
        mpi("mpirun", "-np", "8", "torchrun", "--nproc-per-node=4", "a.py"),
        "roles.launcher.command.1",
        "mpirun would start torchrun 8 times, and each of them all processes of its host",
    ),
    (
        {**mpi("mpirun", "--hostfile", "/v/hosts", "./a"), "volumes": HOSTS},
        "roles.launcher.command.1",
        "the hostfile /v/hosts contains only 1 of the 2 workers",
    ),
    (
        {**mpi("mpirun", "--mca", "plm_rsh_agent", "ssh", "./a")},
        "roles.launcher.command.0",
        "mpirun connects to the workers over ssh, but transport is kubectl-exec",
    ),
]


def test_a_launch_line_or_program_that_contradicts_the_job():
    for spec, path, message in CONTRADICTIONS:
        found = reported(**spec)

        assert (path, message) in [(at, text) for at, text, _ in found]


FITTING = [
    program("parser.initialize(num_processes=9)\njax.distributed.initialize()", **JAX),
    program(f'os.environ["TF_CONFIG"] = "x"\n{STRATEGY}'),
    program('dist.init_process_group("gloo", init_method=url, rank=r, world_size=2)', **JAX),
    program(STRATEGY, framework="generic"),
    {**JAX, "command": ["bash", "-c", "exec mpirun -np 2 -H localhost:2 python a.py"]},
    {"command": ["accelerate", "launch", "--gpu_ids=0,1", "a.py"], "resources": TWO},
    mpi("mpirun", "-np", "4", "--map-by", "ppr:2:node", "./a"),
]


def test_launch_lines_and_programs_that_fit():
    for spec in FITTING:
        policy = {"runPolicy": {"cleanPodPolicy": "All"}}
        assert reported(**spec, **(policy if "roles" in spec else {})) == []


@pytest.mark.slow
def test_jobs_that_train_on_the_cluster_are_right():
    for file in sorted((ROOT / "tests/cluster/jobs").glob("*.yaml")):
        found = attempt([Text(file.name, file.read_text())], Options()).problems

        assert [str(each) for each in found if each.code in ("launch", "exit-code")] == []
