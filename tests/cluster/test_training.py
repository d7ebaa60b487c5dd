"""Real frameworks train in pods created by `mlgen render | kubectl apply -f -`, all at once.

Parameter servers, all-reduce, MXNet and Open MPI train in test_waits.py.
"""

import json
import re

import pytest

pytestmark = pytest.mark.cluster

MPI_LIBRARY = ("hjson", "ninja", "psutil", "py-cpuinfo", "pydantic<2", "pynvml", "tqdm")
"""The dependencies of DeepSpeed 0.14 that the image lacks."""


@pytest.fixture(scope="module")
def namespace(shared_namespace, jobs, library, tmp_path_factory):
    """The namespace of all jobs. Those that the tests change come first."""
    namespace = shared_namespace
    namespace.start(jobs / "pytorch-scaled.yaml", "metadata.name=scaled")
    namespace.start(jobs / "tensorflow-dynamic.yaml")
    namespace.start(jobs / "pytorch-elastic.yaml")
    namespace.start(jobs / "pytorch-torchrun.yaml")
    namespace.start(jobs / "pytorch.yaml")
    namespace.start(
        jobs / "pytorch.yaml", "metadata.name=apart", "spec.roles.master.env.ROLE=master"
    )
    # Rank 0 starts last: without a wait for its start, rank 1 would give up on the tracker.
    late = "[ $JOB_COMPLETION_INDEX != 0 ] || sleep 12"
    download = {"name": "download", "image": "mlgen.test/ml:1", "command": ["sh", "-c", late]}
    namespace.start(
        jobs / "xgboost.yaml", f"spec.template.spec.initContainers={json.dumps([download])}"
    )
    namespace.start(jobs / "jax.yaml")
    namespace.start(jobs / "paddle.yaml")
    namespace.kubectl("create", "configmap", "master", f"--from-file={jobs / 'elasticdl'}")
    namespace.start(jobs / "elasticdl.yaml")
    # While these train, the packages of the others are installed.
    tools = tmp_path_factory.mktemp("tools")
    (tools / "ray").write_text('#!/bin/sh\nexec python3 -m ray.scripts.scripts "$@"\n')
    (tools / "ray").chmod(0o755)
    mount = "spec.volumes.{}.hostPath={}".format
    own = (mount("library", library("ray[default]==2.60.0")), mount("tools", tools))
    namespace.start(jobs / "ray.yaml", *own)
    packages = (*MPI_LIBRARY, "packaging", "setuptools<81")
    folder = library(*packages, source=("deepspeed==0.14.4",))
    namespace.start(jobs / "deepspeed.yaml", mount("library", folder))
    namespace.start(jobs / "lightgbm.yaml", mount("library", library("lightgbm==4.7.0")))
    return namespace


def only_line(lines, words):
    """Return the only line that starts with the words. Libraries also write to the log."""
    (line,) = [line for line in lines if line.startswith(words)]
    return line


def test_torchrun_adapts_to_added_and_removed_workers(namespace):
    def has_printed(words):
        logs = [namespace.log(pod) for pod in namespace.pods("scaled-worker")]
        return any(line.startswith(words) for log in logs for line in log.splitlines())

    namespace.until("two workers", lambda: has_printed("worlds 2 from"))
    namespace.scale("scaled-worker", 3)
    namespace.until("three workers", lambda: has_printed("worlds 2 3 from"))
    namespace.scale("scaled-worker", 2)
    printed = namespace.completed("scaled-worker")

    assert "worlds 2 3 2 sum 3.0" in [line for lines in printed for line in lines]


def test_a_worker_can_be_added_to_a_parameter_server_job(namespace):
    def two_workers_counted():
        logs = [namespace.log(pod) for pod in namespace.pods("ctr-worker")]
        return "total 2" in " ".join(logs)

    namespace.until("two workers", two_workers_counted)
    namespace.scale("ctr-worker", 3)
    printed = namespace.completed("ctr-worker")

    assert "total 3" in [line for lines in printed for line in lines]


def test_ranks_in_one_job_train(namespace):
    printed = namespace.completed("bert-rank")

    assert len(printed) == 3
    (line,) = {only_line(lines, "world") for lines in printed}
    assert re.fullmatch(r"world 3 sum 6.0 loss \S+ weight \S+", line)


def test_ranks_in_separate_jobs_train(namespace):
    printed = [
        line
        for job in ("apart-master", "apart-worker-0", "apart-worker-1")
        for line in namespace.completed(job)
    ]

    (line,) = {only_line(lines, "world") for lines in printed}
    assert re.fullmatch(r"world 3 sum 6.0 loss \S+ weight \S+", line)


def test_torchrun_trains_with_fixed_ranks(namespace):
    first, second = namespace.completed("llama-worker")

    ranks = sorted(line for line in first + second if line.startswith("rank"))
    assert ranks == [f"rank {rank} of 4 sum 10.0" for rank in range(4)]


def test_torchrun_restarts_failed_workers(namespace):
    printed = namespace.completed("vit-worker")

    assert len(printed) == 2
    assert all("world 2 sum 3.0" in lines for lines in printed)


def test_xgboost_trains_one_tree_over_two_ranks(namespace):
    first, second = namespace.completed("higgs-rank")

    assert {only_line(first, "sum"), only_line(second, "sum")} == {"sum 3.0 predicted [0.5, 2.5]"}


def test_lightgbm_trains_one_tree_over_two_machines(namespace):
    (first,) = namespace.completed("rank-master")
    (second,) = namespace.completed("rank-worker-0")

    assert "predicted [0.5, 2.5]" in first
    assert "predicted [0.5, 2.5]" in second


def test_deepspeed_gets_its_ranks_from_mpi(namespace):
    (lines,) = namespace.completed("opt-launcher")

    first, second = [line for line in lines if line.startswith("world")]
    assert re.fullmatch(r"world 2 sum 3.0 weight \S+", first)
    assert first == second


def test_ray_trains_on_two_nodes(namespace):
    (lines,) = namespace.completed("tune-submitter", seconds=840)  # it retries on a busy machine

    assert "nodes 2 weight 1.0" in lines


def test_jax_sums_over_two_processes(namespace):
    first, second = namespace.completed("gemma-worker")

    (line,) = {only_line(first, "processes"), only_line(second, "processes")}
    assert line == "processes 2 sum 3.0 weight 3.397"


def test_paddle_trains_over_gloo(namespace):
    first, second = namespace.completed("ernie-worker")

    assert re.fullmatch(r"world 2 sum 3.0 loss \S+ weight \S+", only_line(first, "world"))
    assert only_line(first, "world") == only_line(second, "world")


def test_the_elasticdl_master_creates_and_deletes_a_worker(namespace):
    """The command, arguments and permissions are as rendered. Only the program is a replacement."""
    (lines,) = namespace.completed("elasticdl-census-master")

    assert lines == [
        "made elasticdl-census-worker-0 of busybox:1.36 with cpu=50m,memory=64Mi",
        "it Succeeded",
        "pods: []",
        "secrets: no",
    ]
