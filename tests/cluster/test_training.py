"""Real frameworks train in pods created by `mlgen render | kubectl apply -f -`."""

import json
import re

import pytest
from ruamel.yaml import YAML
from support import ROOT

pytestmark = pytest.mark.cluster


def only_line(lines, words):
    """Return the only line that starts with the words. Libraries also write to the log."""
    (line,) = [line for line in lines if line.startswith(words)]
    return line


def near_three(lines):
    """True if the weight is about 3: training is asynchronous, so a step may use a stale weight."""
    return abs(float(only_line(lines, "weight").split()[1]) - 3) < 0.2


def test_parameter_servers_train(namespace, jobs):
    namespace.apply(jobs / "tensorflow-ps.yaml")

    (lines,) = namespace.completed("mnist-chief", 300)

    assert only_line(lines, "workers 2 total 200.0 on /job:ps/replica:0/task:0/")
    assert near_three(lines)
    (evaluated,) = namespace.completed("mnist-evaluator")
    assert only_line(evaluated, "evaluates on /job:")


def test_a_worker_can_be_added_to_a_parameter_server_job(namespace, jobs):
    namespace.apply(jobs / "tensorflow-dynamic.yaml")

    def two_workers_counted():
        logs = [namespace.log(pod) for pod in namespace.pods("ctr-worker")]
        return "total 2" in " ".join(logs)

    namespace.until("two workers", two_workers_counted, 300)
    namespace.scale("ctr-worker", 3)
    printed = namespace.completed("ctr-worker")

    assert "total 3" in [line for lines in printed for line in lines]


def test_workers_train_without_parameter_servers(namespace, jobs):
    namespace.apply(jobs / "tensorflow-allreduce.yaml")

    first, second = namespace.completed("resnet-worker", 300)

    assert re.fullmatch(r"sum 3.0 loss \d+\.\d+", only_line(first, "sum"))
    assert only_line(first, "sum") == only_line(second, "sum")


def test_ranks_in_one_job_train(namespace, jobs):
    namespace.apply(jobs / "pytorch.yaml")

    printed = namespace.completed("bert-rank")

    assert len(printed) == 3
    (line,) = {only_line(lines, "world") for lines in printed}
    assert re.fullmatch(r"world 3 sum 6.0 loss \S+ weight \S+", line)


def test_ranks_in_separate_jobs_train(namespace, jobs):
    namespace.apply(jobs / "pytorch.yaml", "--set", "spec.roles.master.env.ROLE=master")

    printed = [
        line
        for job in ("bert-master", "bert-worker-0", "bert-worker-1")
        for line in namespace.completed(job)
    ]

    (line,) = {only_line(lines, "world") for lines in printed}
    assert re.fullmatch(r"world 3 sum 6.0 loss \S+ weight \S+", line)


def test_torchrun_trains_with_fixed_ranks(namespace, jobs):
    namespace.apply(jobs / "pytorch-torchrun.yaml")

    first, second = namespace.completed("llama-worker")

    ranks = sorted(line for line in first + second if line.startswith("rank"))
    assert ranks == [f"rank {rank} of 4 sum 10.0" for rank in range(4)]


def test_torchrun_restarts_failed_workers(namespace, jobs):
    namespace.apply(jobs / "pytorch-elastic.yaml")

    printed = namespace.completed("vit-worker", 300)

    assert len(printed) == 2
    assert all("world 2 sum 3.0" in lines for lines in printed)


def test_torchrun_adapts_to_added_and_removed_workers(namespace, jobs):
    def has_printed(words):
        logs = [namespace.log(pod) for pod in namespace.pods("vit-worker")]
        return any(line.startswith(words) for log in logs for line in log.splitlines())

    namespace.apply(jobs / "pytorch-scaled.yaml")
    namespace.until("two workers", lambda: has_printed("worlds 2 from"))
    namespace.scale("vit-worker", 3)
    namespace.until("three workers", lambda: has_printed("worlds 2 3 from"))
    namespace.scale("vit-worker", 2)
    printed = namespace.completed("vit-worker")

    assert "worlds 2 3 2 sum 3.0" in [line for lines in printed for line in lines]


def test_a_permanent_exit_code_fails_the_job_without_a_retry(namespace, jobs):
    namespace.apply(jobs / "exit-code.yaml")

    condition = namespace.ended("codes-main")

    assert (condition["type"], condition["reason"]) == ("Failed", "PodFailurePolicy")
    assert "exit code 42" in condition["message"]
    assert len(namespace.pods("codes-main")) == 1


@pytest.mark.parametrize("code", [137, 143])
def test_a_retryable_exit_code_is_retried(namespace, jobs, code):
    namespace.apply(jobs / "exit-code.yaml", "--set", f'spec.roles.main.env.CODE="{code}"')

    def failed():
        return namespace.get("job", "codes-main")["status"].get("failed")

    namespace.until("the first failure", failed)
    namespace.kubectl("create", "configmap", "cure", "--from-literal=code=0")
    namespace.completed("codes-main")

    assert failed() >= 1


def test_a_missing_peer_is_named_in_the_timeout_message(namespace, jobs):
    namespace.apply(jobs / "never.yaml")

    condition = namespace.ended("lonely-client")
    (pod,) = namespace.pods("lonely-client")
    (status,) = pod["status"]["initContainerStatuses"]

    assert condition["type"] == "Failed"
    assert status["state"]["terminated"]["exitCode"] == 75
    assert namespace.log(pod, "wait-for-peers").splitlines()[-1] == (
        "timed out after 3s waiting for 2 of 2 peers:"
        " lonely-server-0.lonely:7000, lonely-server-1.lonely:7000"
    )


def test_args_and_env_reach_the_container_unchanged(namespace):
    fixture = ROOT / "fixtures" / "generic-texts.yaml"
    expected = YAML(typ="safe").load(fixture.read_text())["spec"]["roles"]["main"]
    program = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"
    command = ["--set", f"spec.command={json.dumps(['python3', '-c', program])}"]
    namespace.apply(fixture, "--set", "spec.image=mlgen.test/ml:1", *command)

    ((line,),) = namespace.completed("texts-main")
    args, env = json.loads(line)

    assert args == expected["args"]
    assert {name: env[name] for name in expected["env"]} == expected["env"]


def test_reapplying_changes_nothing(namespace, jobs):
    first = namespace.apply(jobs / "pytorch.yaml")
    second = namespace.apply(jobs / "pytorch.yaml")

    assert {line.rpartition(" ")[2] for line in first.splitlines()} == {"created"}
    assert {line.rpartition(" ")[2] for line in second.splitlines()} == {"unchanged"}


def test_mxnet_trains_with_a_server(namespace, jobs):
    namespace.apply(jobs / "mxnet.yaml")

    namespace.completed("cifar-scheduler", 300)
    first, second = namespace.completed("cifar-worker")

    assert {only_line(first, "workers"), only_line(second, "workers")} == {"workers 2 weight 1.0"}
    namespace.completed("cifar-server")


def test_xgboost_trains_one_tree_over_two_ranks(namespace, jobs):
    """Rank 0 starts last: without a wait for its start, rank 1 would give up on the tracker."""
    late = "[ $JOB_COMPLETION_INDEX != 0 ] || sleep 12"
    download = {"name": "download", "image": "mlgen.test/ml:1", "command": ["sh", "-c", late]}
    containers = f"spec.template.spec.initContainers={json.dumps([download])}"
    namespace.apply(jobs / "xgboost.yaml", "--set", containers)

    first, second = namespace.completed("higgs-rank", 300)

    assert {only_line(first, "sum"), only_line(second, "sum")} == {"sum 3.0 predicted [0.5, 2.5]"}


def test_lightgbm_trains_one_tree_over_two_machines(namespace, jobs, library):
    folder = library("lightgbm")
    namespace.apply(jobs / "lightgbm.yaml", "--set", f"spec.volumes.library.hostPath={folder}")

    (first,) = namespace.completed("rank-master", 300)
    (second,) = namespace.completed("rank-worker-0")

    assert "predicted [0.5, 2.5]" in first
    assert "predicted [0.5, 2.5]" in second


def test_deepspeed_gets_its_ranks_from_mpi(namespace, jobs, library):
    dependencies = ("hjson", "ninja", "psutil", "py-cpuinfo", "pydantic<2", "pynvml", "tqdm")
    folder = library(*dependencies, "packaging", "setuptools<81", source=("deepspeed==0.14.4",))
    namespace.apply(jobs / "deepspeed.yaml", "--set", f"spec.volumes.library.hostPath={folder}")

    (lines,) = namespace.completed("opt-launcher")

    first, second = [line for line in lines if line.startswith("world")]
    assert re.fullmatch(r"world 2 sum 3.0 weight \S+", first)
    assert first == second


def test_ray_trains_on_two_nodes(namespace, jobs, library, tmp_path):
    (tmp_path / "ray").write_text('#!/bin/sh\nexec python3 -m ray.scripts.scripts "$@"\n')
    (tmp_path / "ray").chmod(0o755)
    folders = {"library": library("ray[default]"), "tools": tmp_path}
    settings = [f"spec.volumes.{name}.hostPath={path}" for name, path in folders.items()]
    namespace.apply(jobs / "ray.yaml", *(word for s in settings for word in ("--set", s)))

    (lines,) = namespace.completed("tune-submitter", 300)

    assert "nodes 2 weight 1.0" in lines


def test_jax_sums_over_two_processes(namespace, jobs):
    namespace.apply(jobs / "jax.yaml")

    first, second = namespace.completed("gemma-worker", 300)

    (line,) = {only_line(first, "processes"), only_line(second, "processes")}
    assert line == "processes 2 sum 3.0 weight 3.397"


def test_paddle_trains_over_gloo(namespace, jobs):
    namespace.apply(jobs / "paddle.yaml")

    first, second = namespace.completed("ernie-worker", 300)

    assert re.fullmatch(r"world 2 sum 3.0 loss \S+ weight \S+", only_line(first, "world"))
    assert only_line(first, "world") == only_line(second, "world")


def test_parameter_servers_train_on_the_host_network(namespace, jobs):
    """Two workers on one node, each with its own port."""
    namespace.apply(jobs / "tensorflow-ps.yaml", "--set", "spec.network.host=true")

    (lines,) = namespace.completed("mnist-chief-0", 300)
    ports = [
        port["hostPort"]
        for pod in namespace.get("pods")["items"]
        for container in pod["spec"]["containers"]
        for port in container.get("ports", ())
    ]

    assert only_line(lines, "workers 2 total 200.0 on /job:ps/replica:0/task:0/")
    assert near_three(lines)
    assert len(set(ports)) == 5


def test_ranks_train_on_the_host_network(namespace, jobs):
    namespace.apply(jobs / "pytorch.yaml", "--set", "spec.network.host=true")

    printed = [namespace.completed(f"bert-rank-{rank}")[0] for rank in range(3)]

    (line,) = {only_line(lines, "world") for lines in printed}
    assert re.fullmatch(r"world 3 sum 6.0 loss \S+ weight \S+", line)


@pytest.mark.parametrize(
    ("file", "replicas", "expected"),
    [
        ("jax", ["gemma-worker-0", "gemma-worker-1"], "processes 2 sum 3.0 weight 3.397"),
        ("xgboost", ["higgs-rank-0", "higgs-rank-1"], "sum 3.0 predicted [0.5, 2.5]"),
        pytest.param(
            *("mxnet", ["cifar-worker-0", "cifar-worker-1"], "workers 2 weight 1.0"),
            marks=pytest.mark.long,
        ),
        pytest.param(
            *("paddle", ["ernie-worker-0", "ernie-worker-1"], "world 2 sum 3.0 loss "),
            marks=pytest.mark.long,
        ),
    ],
)
def test_other_frameworks_train_on_the_host_network(file, replicas, expected, namespace, jobs):
    namespace.apply(jobs / f"{file}.yaml", "--set", "spec.network.host=true")

    for replica in replicas:
        (lines,) = namespace.completed(replica)

        assert only_line(lines, expected)


def test_the_elasticdl_master_creates_and_deletes_a_worker(namespace, jobs):
    """The command, arguments and permissions are as rendered. Only the program is a replacement."""
    master = jobs / "elasticdl"
    namespace.kubectl("create", "configmap", "master", f"--from-file={master}")
    namespace.apply(jobs / "elasticdl.yaml")

    (lines,) = namespace.completed("elasticdl-census-master")

    assert lines == [
        "made elasticdl-census-worker-0 of busybox:1.36 with cpu=50m,memory=64Mi",
        "it Succeeded",
        "pods: []",
        "secrets: no",
    ]
