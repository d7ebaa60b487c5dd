"""Real frameworks train in pods made by `mlgen render | kubectl apply -f -`."""

import json
import re
import subprocess
import sys

import pytest
from ruamel.yaml import YAML
from support import FIXTURES, ROOT

pytestmark = pytest.mark.cluster


def test_parameter_servers_train(namespace, jobs):
    namespace.apply(jobs / "tensorflow-ps.yaml")

    (lines,) = namespace.completed("mnist-chief", 300)

    assert lines[-2].startswith("workers 2 total 20.0 on /job:ps/replica:0/task:0/")
    assert lines[-1] == "weight 3.0"


def test_workers_alone_train(namespace, jobs):
    namespace.apply(jobs / "tensorflow-allreduce.yaml")

    first, second = namespace.completed("resnet-worker", 300)

    assert re.fullmatch(r"sum 3.0 loss \d+\.\d+", first[-1])
    assert first[-1] == second[-1]


def test_ranks_folded_into_one_job_train(namespace, jobs):
    namespace.apply(jobs / "pytorch.yaml")

    printed = namespace.completed("bert-rank")

    assert re.fullmatch(r"world 3 sum 6.0 loss \S+ weight \S+", printed[0][-1])
    assert len(printed) == 3
    assert {lines[-1] for lines in printed} == {printed[0][-1]}


def test_ranks_in_jobs_of_their_own_train(namespace, jobs):
    namespace.apply(jobs / "pytorch.yaml", "--set", "spec.roles.master.env.ROLE=master")

    printed = [
        line
        for job in ("bert-master", "bert-worker-0", "bert-worker-1")
        for line in namespace.completed(job)
    ]

    assert re.fullmatch(r"world 3 sum 6.0 loss \S+ weight \S+", printed[0][-1])
    assert {lines[-1] for lines in printed} == {printed[0][-1]}


def test_torchrun_with_fixed_ranks(namespace, jobs):
    namespace.apply(jobs / "pytorch-torchrun.yaml")

    first, second = namespace.completed("llama-worker")

    ranks = sorted(line for line in first + second if line.startswith("rank"))
    assert ranks == [f"rank {rank} of 4 sum 10.0" for rank in range(4)]


def test_torchrun_starts_again_what_failed(namespace, jobs):
    namespace.apply(jobs / "pytorch-elastic.yaml")

    printed = namespace.completed("vit-worker", 300)

    # When one has succeeded the other may be stopped before it is done.
    assert "world 2 sum 3.0" in [line for lines in printed for line in lines]


def test_mpi_over_kubectl_exec(namespace, jobs):
    namespace.apply(jobs / "mpi.yaml")

    (lines,) = namespace.completed("pi-launcher")

    assert sorted(lines) == [
        "rank 0 sum 10 on pi-worker-0",
        "rank 1 sum 10 on pi-worker-0",
        "rank 2 sum 10 on pi-worker-1",
        "rank 3 sum 10 on pi-worker-1",
    ]


def test_the_launcher_works_too(namespace, jobs):
    command = '["mpirun", "--allow-run-as-root", "-np", "6", "python3", "-c"]'
    namespace.apply(
        jobs / "mpi.yaml",
        "--set",
        "spec.options.runLauncherAsWorker=true",
        "--set",
        f"spec.roles.launcher.command={command}",
    )

    (lines,) = namespace.completed("pi-launcher")

    hosts = ["pi-launcher-0", "pi-worker-0", "pi-worker-1"]
    assert sorted(lines) == [f"rank {rank} sum 21 on {hosts[rank // 2]}" for rank in range(6)]


def test_mpi_over_ssh_without_any_right(namespace, jobs):
    namespace.kubectl(
        "label", "namespace", namespace.name, "pod-security.kubernetes.io/enforce=restricted"
    )
    passwd = "root:x:0:0::/root:/bin/sh\nmpiuser:x:1000:1000::/home/mpiuser:/bin/sh\n"
    namespace.kubectl("create", "configmap", "passwd", f"--from-literal=passwd={passwd}")
    secret = subprocess.run(
        [sys.executable, "-m", "mlgen", "ssh-secret", "cfd-ssh"],
        check=True,
        capture_output=True,
        text=True,
    )
    namespace.kubectl("apply", "-f", "-", given=secret.stdout)
    namespace.apply(jobs / "mpi-ssh.yaml")

    (lines,) = namespace.completed("cfd-launcher")

    assert sorted(lines) == [
        "rank 0 sum 10 on cfd-worker-0 uid 1000",
        "rank 1 sum 10 on cfd-worker-0 uid 1000",
        "rank 2 sum 10 on cfd-worker-1 uid 1000",
        "rank 3 sum 10 on cfd-worker-1 uid 1000",
    ]


def test_workers_call_the_launcher_by_its_bare_name(namespace, jobs):
    namespace.apply(jobs / "mpi-hydra.yaml")

    (lines,) = namespace.completed("wrf-launcher")

    seen_by_worker, own = lines
    assert seen_by_worker.split()[0] == own.split()[0]
    assert seen_by_worker.split()[1].startswith("wrf-launcher-0.")


def test_elastic_horovod_sees_a_worker_come_and_go(namespace, jobs):
    namespace.apply(jobs / "horovod-elastic.yaml")

    def log():
        pods = namespace.pods("resnet-launcher")
        return namespace.log(pods[0]).splitlines() if pods else []

    two, three = "resnet-worker-0:4 resnet-worker-1:4", "resnet-worker-2:4"
    namespace.until("two workers", lambda: log() == [two])
    namespace.kubectl("scale", "statefulset", "resnet-worker", "--replicas=3")
    namespace.until("a third one", lambda: log() == [two, f"{two} {three}"])
    namespace.kubectl("scale", "statefulset", "resnet-worker", "--replicas=2")
    (lines,) = namespace.completed("resnet-launcher")

    assert lines == [two, f"{two} {three}", two]


def test_a_permanent_exit_code_fails_at_once(namespace, jobs):
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


def test_a_peer_that_never_comes_is_named(namespace, jobs):
    namespace.apply(jobs / "never.yaml")

    condition = namespace.ended("lonely-client")
    (pod,) = namespace.pods("lonely-client")
    (status,) = pod["status"]["initContainerStatuses"]

    assert condition["type"] == "Failed"
    assert status["state"]["terminated"]["exitCode"] == 75
    assert namespace.log(pod, "wait-for-peers").splitlines()[-1] == (
        "gave up after 3 s; still missing: lonely-server-0.lonely:7000 lonely-server-1.lonely:7000"
    )


def test_texts_reach_the_container_unchanged(namespace):
    fixture = ROOT / "fixtures" / "generic-texts.yaml"
    wanted = YAML(typ="safe").load(fixture.read_text())["spec"]["roles"]["main"]
    program = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"
    command = ["--set", f"spec.command={json.dumps(['python3', '-c', program])}"]
    namespace.apply(fixture, "--set", "spec.image=mlgen.test/ml:1", *command)

    ((line,),) = namespace.completed("texts-main")
    args, env = json.loads(line)

    assert args == wanted["args"]
    assert {name: env[name] for name in wanted["env"]} == wanted["env"]


def test_the_api_server_takes_every_fixture(namespace):
    for fixture in FIXTURES:
        manifests = namespace.render(fixture, "--namespace", namespace.name)

        taken = namespace.kubectl("apply", "--dry-run=server", "-f", "-", given=manifests)

        assert taken.count("created (server dry run)") == manifests.count("\nkind: ")


def test_a_second_apply_changes_nothing(namespace, jobs):
    first = namespace.apply(jobs / "pytorch.yaml")
    second = namespace.apply(jobs / "pytorch.yaml")

    assert {line.rpartition(" ")[2] for line in first.splitlines()} == {"created"}
    assert {line.rpartition(" ")[2] for line in second.splitlines()} == {"unchanged"}
