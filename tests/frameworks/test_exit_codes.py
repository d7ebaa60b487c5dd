"""The warning about `restartPolicy: ExitCode` with a launcher or shell that hides exit codes."""

import pytest

from mlgen import validate

JOB = {
    "apiVersion": "mlgen.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "bert"},
}
ALL = {"runPolicy": {"restartScope": "All"}}


def warnings(command, framework="pytorch", **fields):
    """The field, message and fix of each warning about a job that restarts by exit code."""
    spec = {"framework": framework, "image": "example/bert:1", "restartPolicy": "ExitCode"}
    spec |= {"command": command, "roles": {"worker": {"replicas": 2}}, **fields}
    problems = validate({**JOB, "spec": spec}).problems
    return [(p.path[-1], p.message, p.hint) for p in problems if p.code == "exit-code"]


def sh(text, *options):
    return ["bash", *options, "-c", text]


ALWAYS_1 = [
    ["python3", "-m", "torch.distributed.run", "train.py"],
    sh("cd /code && exec torchrun train.py"),
    ["accelerate", "launch", "train.py"],
    ["ray", "job", "submit", "--address", "http://head:8265", "--", "python", "train.py"],
    ["horovodrun", "--gloo", "-np", "2", "python", "train.py"],
]


def test_launchers_that_exit_with_1_whatever_ended_their_processes():
    for command in ALWAYS_1:
        ((field, message, hint),) = warnings(command, **ALL)

        assert field == "restartPolicy"
        assert "exits with 1 after any failure of its processes" in message
        assert hint == "remove restartPolicy: any failure then restarts all replicas"


BY_CODE = {"restartPolicy": "ExitCode", "retryableExitCodes": [137, 143]}


TOGETHER = "write runPolicy: {restartScope: All}"


def test_the_fix_is_to_restart_after_any_failure():
    rows = [
        ({}, "restartPolicy", f"remove restartPolicy, and {TOGETHER}"),
        (BY_CODE, "restartPolicy", f"remove restartPolicy and retryableExitCodes, and {TOGETHER}"),
        ({"roles": {"worker": {}}}, "restartPolicy", "write restartPolicy: OnFailure"),
        (
            BY_CODE | ALL,
            "restartPolicy",
            "remove restartPolicy and retryableExitCodes: any failure then restarts all replicas",
        ),
    ]

    assert [
        [(f, h) for f, _, h in warnings(["torchrun", "train.py"], **fields)]
        for fields, _, _ in rows
    ] == [[(field, hint)] for _, field, hint in rows]


def test_a_rank_that_restarts_alone():
    rows = [
        ({"command": ["torchrun", "train.py"]}, 1),
        ({"framework": "jax"}, 1),
        ({"roles": {"master": {}, "worker": {"resources": {"cpu": 1}}}}, 1),
        (ALL, 0),
        ({"roles": {"worker": {}}}, 0),
        ({"framework": "tensorflow"}, 0),
        ({"framework": "paddle"}, 0),
        ({"command": ["torchrun", "--nnodes=2", "--rdzv_backend=c10d", "train.py"]}, 0),
        ({"env": {"PET_RDZV_BACKEND": "c10d"}}, 0),
        ({"scheduling": {"gang": "kueue", "queue": "q"}}, 1),
    ]

    for fields, count in rows:
        spec = {
            "framework": "pytorch",
            "image": "example/bert:1",
            "command": ["python", "train.py"],
        }
        spec |= {"restartPolicy": "OnFailure", "roles": {"worker": {"replicas": 2}}, **fields}
        problems = validate({**JOB, "spec": spec}).problems

        assert [p.path for p in problems if "restarts alone" in p.message] == [
            ("spec", "restartPolicy")
        ] * count


def test_codes_that_imply_the_policy_are_reported_at_their_field():
    spec = {"framework": "pytorch", "image": "example/bert:1", "command": ["torchrun", "train.py"]}
    spec |= {"retryableExitCodes": [143], "roles": {"worker": {}}, **ALL}
    (problem,) = validate({**JOB, "spec": spec}).problems

    assert (problem.path[-1], problem.code) == ("retryableExitCodes", "exit-code")
    assert "exit code 143" in problem.message


SHELLS = {
    "python3 train.py 2>&1 | tee log": (
        "the shell exits with the status of the last command of a pipe, tee",
        "run the script with bash -o pipefail -c",
    ),
    "set -e\npython3 train.py |\n  tee log | ts\n": (
        "the shell exits with the status of the last command of a pipe, tee",
        "run the script with bash -o pipefail -c",
    ),
    "python3 train.py > log\nsync\ncp log /out/": (
        "the shell exits with the status of its last command, cp",
        "start the script with set -e",
    ),
    "python3 train.py; exit 0": (
        "the shell exits with the status of its last command, exit",
        "start the script with set -e",
    ),
    "python3 train.py || true": ("after a failure, the shell runs true", "remove || true"),
    "python3 train.py || exit 1": ("after a failure, the shell runs exit 1", "remove || exit 1"),
    "python3 train.py || echo failed": (
        "after a failure, the shell runs echo failed",
        "remove || echo failed",
    ),
}


@pytest.mark.parametrize("text", SHELLS)
def test_shells_that_exit_with_the_status_of_another_command(text):
    reason, hint = SHELLS[text]

    message = f"{reason}, which hides the program's exit codes 128 to 255"
    assert warnings(sh(text)) == [(2, message, hint)]


SEEN = [
    ["python3", "train.py"],
    ["mpirun", "-np", "2", "python3", "train.py"],
    ["horovodrun", "-np", "2", "python3", "train.py"],
    ["ray", "start", "--head", "--block"],
    ["deepspeed", "--no_ssh", "train.py"],
    ["./torchrun.sh"],
    sh("exec python3 train.py"),
    sh("python3 train.py"),
    sh("pip install -r requirements.txt; python3 train.py\n"),
    sh("cd /code && python3 train.py && echo done"),
    sh("python3 train.py | tee log", "-o", "pipefail"),
    sh("set -euo pipefail; python3 train.py | tee log"),
    sh("python3 train.py; echo done", "-e"),
    sh("set -e\npython3 train.py\necho done"),
    sh("python3 download.py; ./train; echo done; python3 evaluate.py"),
    sh("python3 download.py; ./train"),
    sh("python3 download.py | tee log; ./train"),
    sh("python3 train.py; code=$?; cp log /out/; exit $code"),
    sh("python3 train.py | tee log; exit ${PIPESTATUS[0]}"),
    sh("python3 train.py || exit $?"),
    sh("python3 train.py || exit 143"),
    sh("python3 train.py & wait $!"),
    sh("(python3 train.py; echo done)"),
    sh("while ! python3 train.py; do sleep 1; done"),
    sh("trap 'echo end' EXIT; python3 train.py; echo done"),
    sh("cat <<E\npython3 train.py\nE\necho done"),
    sh("ls | tee log; python3 train.py"),
    sh("echo start; sleep 1"),
]


def test_exit_codes_that_are_seen_are_no_warning():
    for command in SEEN:
        assert warnings(command) == []


def test_codes_that_the_launcher_passes_on():
    assert warnings(["torchrun", "train.py"], retryableExitCodes=[1, 2, 3]) == []
    assert warnings(["torchrun", "train.py"], restartPolicy="OnFailure") == []
    assert warnings(["deepspeed", "--no_ssh", "train.py"], retryableExitCodes=[3, 137]) == []


def test_a_custom_resource_keeps_the_rule_of_its_operator_and_is_reported_to_differ():
    container = {"name": "pytorch", "image": "example/bert:1", "command": ["torchrun", "train.py"]}
    worker = {
        "replicas": 2,
        "restartPolicy": "ExitCode",
        "template": {"spec": {"containers": [container]}},
    }
    resource = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "bert"},
        "spec": {"pytorchReplicaSpecs": {"Worker": worker}},
    }
    (problem,) = [p for p in validate(resource).problems if "torchrun" in p.message]

    assert (problem.code, problem.warning) == ("differs", True)
    assert problem.path == ("spec", "pytorchReplicaSpecs", "Worker", "restartPolicy")
    assert problem.message.endswith("so the operator would never restart a replica")
    assert problem.hint.startswith("write a restartPolicy that does not depend on exit codes")
