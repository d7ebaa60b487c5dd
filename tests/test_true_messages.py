"""A message is true: what works is not rejected, and the fix in a hint leads to a job that trains.

Each case renders a file as a user does, and compares the errors and warnings with those expected.
"""

import json

import pytest
import yaml
from click.testing import CliRunner

from mlgen.cli import main

OWN_DIFFERENCES = ("differs", "rights")
"""Codes of messages that are not about a fault of the file."""


def run(document, *options):
    """Return the result of `mlgen render` for a document or a text."""
    text = document if isinstance(document, str) else yaml.safe_dump(document, sort_keys=False)
    arguments = ["render", "--no-config", "--problems", "json", *options, "-"]
    return CliRunner().invoke(main, arguments, input=text, catch_exceptions=False)


def problems(document, *options):
    """Return all problems of a document."""
    text = run(document, *options).stderr
    return json.loads(text)["problems"] if text.strip() else []


def messages(document, *options, codes=()):
    """Return `error` or `warning` with the message and hint of each problem."""
    return [
        (each["severity"], each["message"], each["hint"])
        for each in problems(document, *options)
        if each["code"] in codes or (not codes and each["code"] not in OWN_DIFFERENCES)
    ]


def training_job(framework="pytorch", replicas=2, **spec):
    return {
        "apiVersion": "mlgen.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "j"},
        "spec": {
            "framework": framework,
            "image": "x",
            "command": ["python", "a.py"],
            "roles": {"worker": {"replicas": replicas}},
            **spec,
        },
    }


def container(*command, **fields):
    return {"name": "pytorch", "image": "x", "command": list(command), **fields}


def pytorch_job(*command, replicas=2, restart=None, **fields):
    pod = {"spec": {"containers": [container(*command, **fields)]}}
    worker = {"replicas": replicas, "template": pod}
    worker |= {"restartPolicy": restart} if restart else {}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "j"},
        "spec": {"pytorchReplicaSpecs": {"Worker": worker}},
    }


def volcano_job(*command, replicas=2, **fields):
    pod = {"spec": {"restartPolicy": "Never", "containers": [container(*command, **fields)]}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {
            "minAvailable": replicas,
            "plugins": {"env": [], "svc": []},
            "tasks": [{"name": "worker", "replicas": replicas, "template": pod}],
        },
    }


def job_set(*command, parallelism=2, completions=2, pod=None):
    template = {"restartPolicy": "Never", "containers": [container(*command)], **(pod or {})}
    spec = {"parallelism": parallelism, "completions": completions, "backoffLimit": 0}
    job = {"spec": {**spec, "template": {"spec": template}}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "j"},
        "spec": {"replicatedJobs": [{"name": "worker", "template": job}]},
    }


def train_job(*command):
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "j"},
        "spec": {
            "runtimeRef": {"name": "torch-distributed"},
            "trainer": {"numNodes": 2, "image": "x", "command": list(command)},
        },
    }


FORMS = {
    "job file": lambda *command: training_job(command=list(command)),
    "generic job file": lambda *command: training_job("generic", command=list(command)),
    "PyTorchJob": pytorch_job,
    "Volcano": volcano_job,
    "JobSet": job_set,
    "TrainJob": train_job,
}


def launched(form, *command):
    """Return the errors and warnings of a launch line in a form, by message."""
    options = ("--runtime", "2.1") if form == "TrainJob" else ()
    found = messages(FORMS[form](*command), *options, codes=("launch", "no-such-peer"))
    return {text: (kind, hint) for kind, text, hint in found if "without --" not in text}


@pytest.mark.parametrize("form", FORMS)
def test_too_many_nodes_are_an_error_in_each_form(form):
    message = "--nnodes=4 waits for 4 pods, but the job has 2"

    assert launched(form, "torchrun", "--nnodes=4", "a.py") == {
        message: ("error", "write --nnodes=2")
    }


@pytest.mark.parametrize("form", FORMS)
def test_a_script_that_may_choose_another_number_of_nodes_is_not_rejected(form):
    script = "if [ -f /big ]; then torchrun --nnodes=4 a.py; else torchrun --nnodes=2 a.py; fi"

    assert [kind for kind, _ in launched(form, "bash", "-c", script).values()] == ["warning"]


@pytest.mark.parametrize("form", FORMS)
def test_a_missing_peer_is_an_error_in_each_form(form):
    line = ("torchrun", "--nnodes=2", "--node_rank=$(A)", "--master_addr=j-master-0", "a.py")

    found = launched(form, *line)

    message = "--master_addr is j-master-0, which is not a replica of this job"
    assert [(kind, text) for text, (kind, _) in found.items()] == [("error", message)]


def test_a_node_that_another_job_may_bring_is_a_warning():
    line = ("torchrun", "--nnodes=4", "--rdzv_backend=etcd", "--rdzv_endpoint=etcd:2379", "a.py")

    assert [kind for kind, _ in launched("Volcano", *line).values()] == ["warning"]


def test_a_peer_in_a_comment_is_no_problem():
    script = "# as in j-worker-7.j:29500\ntorchrun --nnodes=2 a.py"

    assert launched("Volcano", "bash", "-c", script) == {}


@pytest.mark.parametrize(
    "endpoint",
    [
        """$(IFS=',' read -ra all <<< "$VC_WORKER_HOSTS"; echo "${all[0]}")""",
        "$(echo $VC_WORKER_HOSTS | cut -d, -f1)",
        "`echo $VC_WORKER_HOSTS | cut -d, -f1`",
        "$(case $VC_TASK_INDEX in 0) echo localhost;; *) echo j-worker-0.j;; esac)",
        "${HOSTNAME%-*}-0.j",
        "${VC_WORKER_HOSTS%%,*}",
        "$(cat <<EOF\nit's (a\nEOF\n)",
    ],
)
def test_an_address_that_a_shell_computes_is_not_interpreted(endpoint):
    script = f"torchrun --nnodes=2 --rdzv-endpoint={endpoint}:23456 --rdzv-backend=c10d a.py"

    assert launched("Volcano", "bash", "-c", script) == {}


SECRET = "is not a valid name of a Secret, so images are pulled without it"


def test_a_pull_secret_of_any_name_is_a_warning():
    found = messages(job_set("python", "a.py", pod={"imagePullSecrets": [{"name": "None"}]}))

    assert [(kind, text) for kind, text, _ in found] == [("warning", f'"None" {SECRET}')]


@pytest.mark.parametrize(("optional", "kind"), [(True, "warning"), (False, "error")])
def test_only_an_optional_object_may_have_an_invalid_name(optional, kind):
    source = {"configMapRef": {"name": "A_b", "optional": optional}}

    assert [each[0] for each in messages(training_job(envFrom=[source]))] == [kind]


@pytest.mark.parametrize("name", ["PATH", "LD_LIBRARY_PATH", "PYTHONPATH"])
def test_a_search_path_in_env_is_a_warning(name):
    job = pytorch_job("/opt/bin/train", env=[{"name": name, "value": f"${name}:/opt/bin"}])

    assert [kind for kind, _, _ in messages(job)] == ["warning"]


@pytest.mark.parametrize(("restart", "count"), [("OnFailure", 1), (None, 0), ("Never", 0)])
def test_a_written_policy_that_restarts_a_replica_alone_is_reported(restart, count):
    found = messages(pytorch_job("python", "a.py", restart=restart), codes=["differs"])

    alone = [hint for _, text, hint in found if text.startswith("a replica that fails restarts")]
    fix = "to restart all replicas, pass --set spec.runPolicy.restartScope=All"
    assert alone == [fix] * count


def test_the_fix_of_a_replica_that_restarts_alone_leads_to_no_other_message():
    job = pytorch_job("python", "a.py", restart="OnFailure")

    assert problems(job, "--set", "spec.runPolicy.restartScope=All") == []


CARRIAGE = "the lines end with \\r\\n, and \\r becomes a part of the last word of each line"


@pytest.mark.parametrize(
    ("files", "reported"),
    [
        ({"run.sh": "#!/bin/sh\r\nset -e\r\npython a.py\r\n"}, True),
        ({"other.sh": "set -e\r\n"}, True),
        ({"start": "#!/usr/bin/env python3\r\nprint()\r\n"}, True),
        ({"run.sh": "#!/bin/sh\npython a.py\n"}, False),
        ({"data.csv": "a,b\r\n"}, False),
        ({"a.py": "print()\r\n"}, False),
    ],
)
def test_a_script_with_carriage_returns_is_reported(files, reported):
    job = training_job(volumes={"code": {"mountPath": "/code", "files": files}})

    assert [text for _, text, _ in messages(job)] == [CARRIAGE] * reported


def test_a_script_with_carriage_returns_is_reported_in_a_command_and_in_the_input():
    command = training_job(command=["sh", "-c", "set -e\r\npython a.py\r\n"])
    data = {"run.sh": "a\r\nb\r\n", "a.csv": "a\r\n"}
    stored = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}
    both = f"{yaml.safe_dump(training_job())}---\n{yaml.safe_dump(stored)}"

    assert [text for _, text, _ in messages(command)] == [CARRIAGE]
    assert [text for _, text, _ in messages(both)] == [CARRIAGE]


def tensorflow_job(clean):
    pod = {"spec": {"containers": [{"name": "tensorflow", "image": "x", "command": ["a"]}]}}
    names = ("Chief", "PS", "Worker", "Evaluator")
    replica_types = {name: {"replicas": 1, "template": pod} for name in names}
    policy = {"runPolicy": {"cleanPodPolicy": clean}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "ev"},
        "spec": {**policy, "tfReplicaSpecs": replica_types},
    }


@pytest.mark.parametrize(
    ("clean", "settings", "stated"),
    [
        ("Running", (), True),
        ("All", (), True),
        ("None", (), False),
        ("Running", ("spec.successPolicy.roles=[chief,evaluator]",), False),
    ],
)
def test_the_summary_states_that_an_evaluator_is_stopped(clean, settings, stated):
    options = [word for setting in settings for word in ("--set", setting)]
    text = " ".join(run(tensorflow_job(clean), *options).stdout.replace("\n#", " ").split())

    fix = "to wait for it, set spec.successPolicy.roles=[chief,evaluator]"
    assert (f"evaluator is stopped when chief ends; {fix}" in text) == stated


NODES = ("torchrun", "--nnodes=4", "a.py")


def test_the_hint_for_too_many_nodes_leads_to_no_job_that_trains_alone():
    alone = job_set(*NODES, parallelism=4, completions=1)
    found = messages(alone)

    fix = "run 4 pods: set replicas, numNodes or completions to 4"
    assert [hint for _, _, hint in found] == [fix]
    right = messages(job_set(*NODES, parallelism=4, completions=4))
    assert {hint.partition("=")[0] for _, _, hint in right} == {
        "add --node_rank",
        "add --master_addr",
    }
    one = messages(training_job(replicas=1, command=list(NODES)))
    assert [hint for _, _, hint in one] == ["write replicas: 4"]
    assert messages(training_job(replicas=4, command=list(NODES))) == []


def test_a_number_of_pods_that_has_no_effect_is_reported():
    found = messages(job_set("python", "a.py", parallelism=4, completions=1))

    text = "4 pods need as many completions: with completions: 1, Kubernetes runs 1 at a time"
    assert found == [("warning", text, "write completions: 4")]
    assert messages(job_set("python", "a.py", parallelism=4, completions=4)) == []


@pytest.mark.parametrize(
    ("field", "value", "hint"),
    [
        ("environment", {"A": "b"}, "write env: {A: b}"),
        ("envs", {"A": "b"}, "write env: {A: b}"),
        ("cpus_per_task", 4, "write resources: {cpu: 4}"),
        ("mem_per_node", "8Gi", "write resources: {memory: 8Gi}"),
        ("gpus", 8, "write resources: {nvidia.com/gpu: 8}"),
        ("num_nodes", 4, "write roles.worker.replicas: 4"),
        ("count", 4, "write roles.worker.replicas: 4"),
        ("run", "python b.py", "write command: [python, b.py]"),
    ],
)
def test_a_field_of_another_tool_has_a_hint_that_renders(field, value, hint):
    job = training_job(**{field: value})

    assert [text for _, _, text in messages(job)] == [hint]
    fixed = yaml.safe_load(hint.removeprefix("write "))
    ((place, written),) = fixed.items()
    spec = {**job["spec"]}
    del spec[field]
    if place.startswith("roles."):
        spec["roles"] = {"worker": {"replicas": written}}
    else:
        spec[place] = written
    assert messages({**job, "spec": spec}) == []


@pytest.mark.parametrize(
    ("field", "hint"),
    [
        ("environment", "write env: [{name: …, value: …}]"),
        ("entrypoint", "write command: […]"),
        ("gpus", "write resources: {limits: {nvidia.com/gpu: …}}"),
        ("env_file", "write envFrom: [{secretRef: {name: …}}]"),
    ],
)
def test_a_container_field_of_another_tool_has_a_hint(field, hint):
    job = pytorch_job("python", "a.py", **{field: ["A=b"]})

    assert [text for _, _, text in messages(job)] == [hint]


@pytest.mark.parametrize(
    ("field", "hint"),
    [
        ("environment", "write template.spec.containers[0].env"),
        ("num_nodes", 'did you mean "replicas"?'),
        ("gpus", "write template.spec.containers[0].resources"),
        ("image", "move it to template.spec.containers[0].image"),
    ],
)
def test_a_field_of_a_replica_type_has_a_hint(field, hint):
    job = pytorch_job("python", "a.py")
    job["spec"]["pytorchReplicaSpecs"]["Worker"][field] = "x"

    assert [text for _, _, text in messages(job)] == [hint]


def test_fields_of_a_job_in_a_job_set_belong_into_its_template():
    job = job_set("python", "a.py")
    job["spec"]["replicatedJobs"][0] |= {"parallelism": 2, "completions": 2}

    assert [hint for _, _, hint in messages(job)] == [
        "move it to template.spec.parallelism",
        "move it to template.spec.completions",
    ]
