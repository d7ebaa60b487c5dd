"""How command lines start programs: what is reported, and jobs that look alike and are right."""

import pytest

from mlgen import MlgenError, validate

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


SUBMIT = ["ray", "job", "submit", "--", "python", "tune.py", "--lr", "1"]

CUT = 'the line break or blank before "{}" ends the command before it'
SUCCESS = "so Kubernetes counts a failed training as a success"
NONE = "{} has no program to start"

WRONG = [
    (script("python a.py\n  --lr 1\n"), "command.2", CUT.format("--lr")),
    (script("torchrun \\ \n a.py"), "command.2", CUT.format("a.py")),
    (script("torchrun --nnodes=2 \\ a.py"), "command.2", CUT.format("a.py")),
    (script("cd /a\n  && python a.py"), "command.2", CUT.format("&&")),
    (script("bash /v/x", x="cd /a\npython a.py\n -x"), "volumes.v.files.x", CUT.format("-x")),
    (script("torchrun --nnodes=2\n a.py"), "command.2", NONE.format("torchrun")),
    ({"command": ["accelerate", "launch", "--cpu"]}, "command.1", NONE.format("accelerate")),
    (mpi("mpirun", "-np", "8", "-x", "A"), "roles.launcher.command.0", NONE.format("mpirun")),
    (
        script("torchrun --nnodes=$SLURM_NNODES a.py"),
        "command.2",
        "Slurm sets SLURM_NNODES, so it is empty in a pod",
    ),
    (
        {"command": ["torchrun", "--nproc-per-nodes=8", "a.py"]},
        "command.1",
        "torchrun has no option --nproc-per-nodes",
    ),
    (
        {"command": ["torchrun", "python", "-u", "a.py"]},
        "command.0",
        "torchrun starts its program with python, so it would look for a script named python",
    ),
    (
        {"command": ["accelerate", "launch", "run.sh"]},
        "command.1",
        "accelerate starts its program with python, but run.sh is not a Python script",
    ),
    (
        {"command": ["torchrun", "-m", "a.py"]},
        "command.1",
        "-m takes the name of a module, not a file such as a.py",
    ),
    (
        {"command": ["torchrun", "-m", "accelerate.commands.launch", "a.py"]},
        "command.0",
        "each process of torchrun would start accelerate, which starts processes itself",
    ),
    (
        mpi("mpirun", "-np", "8", "a.py"),
        "roles.launcher.command.0",
        "mpirun would look for a program named a.py in PATH",
    ),
    (
        mpi("mpirun", "-np", "8", "-genv", "A", "1", "./a"),
        "roles.launcher.command.3",
        "-genv is an option of MPICH and Intel, but the implementation of the job is OpenMPI",
    ),
    (
        mpi("mpirun", "-np", "8", "--oversubscribe", "./a", implementation="Intel"),
        "roles.launcher.command.3",
        "--oversubscribe is an option of OpenMPI, but the implementation of the job is Intel",
    ),
    (
        mpi("mpirun", "--bootstrap", "slurm", "-np", "8", "./a", implementation="MPICH"),
        "roles.launcher.command.1",
        "--bootstrap=slurm needs Slurm, which pods do not have",
    ),
    (
        {**mpi("mpirun", "./a"), "security": {"runAsUser": 0}},
        "roles.launcher.command.0",
        "mpirun of Open MPI refuses to run as root, and runAsUser is 0",
    ),
    (
        {**mpi(), "command": ["mpirun", "./a"], "roles": {"launcher": {}, "worker": {}}},
        "command.0",
        "each worker runs mpirun, too, instead of waiting for the launcher",
    ),
    (
        ray(head={"command": ["ray", "start", "--head"]}),
        "roles.head.command.0",
        "without --block, ray start ends at once, and so does its container",
    ),
    (
        ray(worker={"command": ["ray", "start", "--head", "--block"]}),
        "roles.worker.command.2",
        "with --head, each replica of worker starts its own cluster",
    ),
    (
        ray(submitter={"command": [word for word in SUBMIT if word != "--"]}),
        "roles.submitter.command.0",
        "ray job submit reads --lr as its own option, and has none of that name",
    ),
    (
        script("torchrun a.py & echo started"),
        "command.2",
        "the shell does not wait for torchrun, so the container ends with the script",
    ),
    (
        script("torchrun a.py; sleep infinity"),
        "command.2",
        "after training, sleep infinity keeps the container running, so the job never ends",
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


@pytest.mark.parametrize(("spec", "path", "message"), WRONG)
def test_a_program_that_does_not_start_or_end_as_meant(spec, path, message):
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
    ray(head={"command": ["bash", "-c", "ray start --head; python serve.py"]}),
    ray(submitter={"command": ["ray", "job", "submit", "python", "a.py", "--working-dir", "."]}),
]


@pytest.mark.parametrize("spec", RIGHT)
def test_jobs_that_look_alike_are_right(spec):
    policy = {"runPolicy": {"cleanPodPolicy": "All"}}
    assert reported(**spec, **(policy if "roles" in spec else {})) == []
