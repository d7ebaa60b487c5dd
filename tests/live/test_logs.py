"""`mlgen logs`: the choice of replica and pod, and following it across restarts."""

import json

import pytest
from support import ROOT, live_jobs

from mlgen.live import logs
from mlgen.live.kubectl import ClusterError, Outcome, failure
from mlgen.live.state import snapshot
from mlgen.problems import MlgenError


def pod(cluster, role, index, *, newest=True):
    """The name of a replica's newest pod, or of the previous pod."""
    pods = [
        item["metadata"]
        for item in cluster.objects
        if item["kind"] == "Pod"
        and item["metadata"]["labels"].get("mlgen.dev/role") == role
        and item["metadata"]["labels"].get("batch.kubernetes.io/job-completion-index") == str(index)
    ]
    return sorted(pods, key=lambda each: each["creationTimestamp"])[-1 if newest else 0]["name"]


def fixture(name):
    (job,) = live_jobs(ROOT / f"fixtures/{name}.yaml")
    return job


@pytest.mark.parametrize(
    ("name", "replica"),
    [
        ("pytorch-static", "rank-0"),
        ("tensorflow-ps", "chief-0"),
        ("mpi-ssh", "launcher-0"),
        ("horovod", "launcher-0"),
        ("jax", "worker-0"),
        ("paddle", "worker-0"),
        ("xgboost", "rank-0"),
        ("ray", "submitter-0"),
    ],
)
def test_by_default_it_is_rank_0_or_the_deciding_replica(name, replica):
    assert replica == str(logs.find_replica(fixture(name), None, None, None))


def test_a_rank_is_that_of_its_own_job():
    job = fixture("pytorch-ranks")

    assert {"master-0": 0, "worker-0": 1, "worker-1": 2} == {
        str(each): each.rank for each in logs.replicas(job)
    }
    assert "worker-1" == str(logs.by_rank(job, 2))


def test_a_merged_role_of_which_each_replica_has_a_job():
    job = fixture("pytorch-host-network")

    found = [logs.by_index(job, "worker", index) for index in (0, 1)]
    assert ["rank-1", "rank-2"] == list(map(str, found))


def test_replicas_that_the_program_starts_itself():
    with pytest.raises(MlgenError, match="has no rendered replicas; the program creates them"):
        logs.by_index(fixture("resources/elasticdl-elasticaijob-v1"), "worker", 0)


@pytest.mark.parametrize("name", ["tensorflow-ps", "horovod", "pytorch-elastic", "ray"])
def test_ranks_that_are_given_at_run_time(name):
    with pytest.raises(MlgenError, match=r"have no ranks before they start; use --role and"):
        logs.find_replica(fixture(name), 0, None, None)


def test_roles_that_were_merged(cluster, run):
    cluster.show("running")
    cluster.logs[pod(cluster, "rank", 2), "main"] = ["a", "b"]

    assert (0, "a\nb\n", "") == run("logs", "ddp.yaml", "--role", "worker", "--index", "1")
    assert (0, "a\nb\n", "") == run("logs", "ddp.yaml", "--rank", "2", "--tail", "5")
    assert cluster.calls[-1].endswith("-c main --tail=5")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rank", "3"], "--rank 3: ddp has no such rank; use 0 to 2"),
        (["--role", "wroker"], '--role: ddp has no role "wroker"; did you mean "worker"?'),
        (["--role", "master", "--index", "1"], "--index 1: master has no such replica; use 0"),
        (["-c", "man"], '--container: rank-0 has no container "man"; did you mean "main"?'),
        (["--job", "x"], '--job: no job "x" found; use ddp'),
        (["--previous"], "is the oldest pod of rank-0 that still exists, and its container main"),
    ],
)
def test_a_replica_that_does_not_exist(cluster, run, words, message):
    cluster.show("running")

    status, _, stderr = run("logs", "ddp.yaml", *words)

    assert 1 == status
    assert message in stderr


@pytest.mark.parametrize(
    "words",
    [
        ["--rank", "1", "--role", "worker"],
        ["--rank", "1", "--index", "1"],
        ["--index", "1"],
        ["--follow", "--previous"],
        ["--rank", "-1"],
    ],
)
def test_contradictory_options(run, words):
    assert 2 == run("logs", "ddp.yaml", *words)[0]


def test_one_of_several_jobs(cluster, run, tmp_path):
    text = "\n---\n".join((ROOT / f"tests/live/jobs/{n}.yaml").read_text() for n in ("ddp", "oom"))
    (tmp_path / "both.yaml").write_text(text)
    cluster.show("running")
    cluster.logs[pod(cluster, "rank", 0), "main"] = ["a"]

    assert "expected one job, got 2; use --job with ddp, mem" in run("logs", str(tmp_path))[2]
    assert "a\n" == run("logs", str(tmp_path), "--job", "ddp")[1]


def test_a_replica_with_a_stateful_set_of_its_own():
    """Its pod has the index 0, regardless of the replica's index."""
    (job,) = live_jobs(ROOT / "fixtures/mpi-host-network.yaml")
    replica = logs.by_index(job, "worker", 1)
    name, labels = f"{job.name}-worker-1", {"mlgen.dev/job": job.name}
    own = {"labels": labels, "creationTimestamp": "2026"}
    of_pod = {**labels, "apps.kubernetes.io/pod-index": "0"}
    pod = {**own, "name": "p", "uid": "p", "labels": of_pod, "ownerReferences": [{"uid": "w"}]}
    objects = [
        {"kind": "StatefulSet", "metadata": {**own, "name": name, "uid": "w"}},
        {"kind": "Pod", "metadata": pod, "status": {}},
    ]

    (found,) = logs.pods_of_replica(snapshot(job, objects, 0.0), replica)
    assert found["metadata"]["uid"] == "p"


def test_a_pod_without_a_log_says_why(cluster, run):
    cluster.show("waiting")

    status, stdout, stderr = run("logs", "waiting.yaml")

    assert (1, "") == (status, stdout)
    assert (
        "has no log yet: WaitingForPeers: waits for 2 of 4 peers: ps-0, ps-1; to wait for it, use"
        " --follow [kubectl]"
    ) in stderr


def test_a_replica_without_a_pod_says_what_its_role_does(cluster, run):
    cluster.show("running")
    cluster.objects = [item for item in cluster.objects if item["kind"] != "Pod"]

    assert "rank-0 has no pod; role: No pods; job: Running; see mlgen" in run("logs", "ddp.yaml")[2]


def test_the_log_before_a_restart_is_in_the_pod_before(cluster, run):
    cluster.show("restarted")
    before, after = pod(cluster, "rank", 1, newest=False), pod(cluster, "rank", 1)
    cluster.logs = {(before, "main"): ["before"], (after, "main"): ["after"]}

    assert "after\n" == run("logs", "ddp.yaml", "--rank", "1")[1]
    assert "before\n" == run("logs", "ddp.yaml", "--rank", "1", "--previous")[1]


def test_the_log_before_a_restart_in_the_same_pod(cluster, run):
    cluster.show("running")
    for item in cluster.objects:
        for each in item["status"].get("containerStatuses", ()) if "status" in item else ():
            each["restartCount"] = 1
    cluster.logs[pod(cluster, "rank", 0), "main"] = ["before"]

    assert "before\n" == run("logs", "ddp.yaml", "--previous")[1]
    assert cluster.calls[-1].endswith("--previous")


def at(second, text):
    return f"2026-11-22T11:00:{second:02}.000000000Z {text}"


def test_follow_goes_on_in_a_new_pod(cluster, run):
    cluster.show("running")
    first = pod(cluster, "rank", 1)
    cluster.logs[first, "main"] = [at(1, "a"), at(2, "b"), lambda: cluster.show("restarting")]

    def restarted():
        cluster.show("restarted")
        second = pod(cluster, "rank", 1)
        cluster.logs[second, "main"] = [at(9, "c"), lambda: cluster.show("succeeded")]

    cluster.steps = ["restarting", restarted]

    status, stdout, stderr = run("logs", "ddp.yaml", "--rank", "1", "--follow")

    assert (0, "a\nb\nc\n") == (status, stdout)
    assert stderr.splitlines()[0] == f"{first}: Error: exit code 137"
    assert stderr.splitlines()[1].startswith("rank-1: new pod ddp-rank-1-")


def test_follow_prints_each_line_once_if_the_connection_is_lost(cluster, run):
    cluster.show("running")
    name = pod(cluster, "rank", 0)
    cluster.logs[name, "main"] = [at(1, "a"), at(2, "b"), at(2, "c")]

    def more():
        again = [at(2, "b"), at(2, "c"), at(2, "d"), at(3, "e"), lambda: cluster.show("succeeded")]
        cluster.logs[name, "main"] = again

    cluster.steps = [more]

    assert "a\nb\nc\nd\ne\n" == run("logs", "ddp.yaml", "-f")[1]
    resumed = [call for call in cluster.calls if "--since-time" in call]
    assert [f"logs -f {name} -c main --since-time=2026-11-22T11:00:02Z --timestamps"] == resumed


def test_follow_tells_whom_a_pod_waits_for(cluster, run):
    cluster.show("waiting")
    name = pod(cluster, "chief", 0)

    def gone():
        cluster.objects = []

    cluster.logs[name, "wait-for-peers"] = ["waiting for 2 of 4 peers: mix-ps-0.mix, mix-ps-1.mix"]
    cluster.steps = ["waiting", gone]

    status, stdout, stderr = run("logs", "waiting.yaml", "-f")

    assert (0, "") == (status, stdout)
    assert [
        f"{name}: WaitingForPeers: waits for 2 of 4 peers: ps-0, ps-1",
        f"{name}: waiting for 2 of 4 peers: mix-ps-0.mix, mix-ps-1.mix",
    ] == stderr.splitlines()


def test_follow_waits_for_the_pod_of_a_replica(cluster, run):
    cluster.show("running")
    name = pod(cluster, "rank", 0)
    cluster.objects = [item for item in cluster.objects if item["kind"] != "Pod"]
    cluster.logs[name, "main"] = [at(1, "a"), lambda: cluster.show("succeeded")]
    cluster.steps = ["running"]

    status, stdout, stderr = run("logs", "ddp.yaml", "-f")

    assert (0, "a\n") == (status, stdout)
    assert "rank-0 has no pod yet: the job is Running" == stderr.splitlines()[0]


def test_follow_a_container_that_restarts_in_its_pod(cluster, run):
    cluster.show("running")
    name = pod(cluster, "rank", 0)

    def restarted():
        for item in cluster.objects:
            if item["metadata"]["name"] == name:
                item["status"]["containerStatuses"][0]["restartCount"] = 1
        cluster.logs[name, "main"] = [at(5, "b"), lambda: cluster.show("succeeded")]

    cluster.logs[name, "main"] = [at(1, "a"), restarted]

    status, stdout, stderr = run("logs", "ddp.yaml", "-f")

    assert (0, "a\nb\n") == (status, stdout)
    assert f"rank-0: restart 1 in {name}" == stderr.splitlines()[0]


def test_follow_leaves_a_pod_on_a_lost_node(cluster, run):
    cluster.show("running")
    name = pod(cluster, "rank", 1)

    def replaced():
        cluster.show("restarted")
        cluster.logs[pod(cluster, "rank", 1), "main"] = [
            at(9, "b"),
            lambda: cluster.show("succeeded"),
        ]

    # A stream yields None while there are no new lines.
    cluster.logs[name, "main"] = Stream([at(1, "a"), replaced, None, at(2, "never")])

    assert "a\nb\n" == run("logs", "ddp.yaml", "-f", "--rank", "1")[1]


class Stream(list):
    """Lines with pauses between them."""


def test_follow_of_a_job_that_is_not_there(run):
    status, _, stderr = run("logs", "ddp.yaml", "-f")

    assert 1 == status
    assert "ddp is not in namespace vision" in stderr


@pytest.mark.parametrize(("failures", "expected"), [(5, (0, "a\n", False)), (6, (1, "", True))])
def test_follow_reads_a_log_again_up_to_five_times(cluster, run, failures, expected):
    cluster.show("running")
    cluster.steps = ["running"] * 5
    errors = [failure(Outcome(1, "", "error: unexpected EOF"))] * failures

    def read():
        if errors:
            raise errors.pop()

    end = [at(1, "a"), lambda: cluster.show("succeeded")]
    cluster.logs[pod(cluster, "rank", 0), "main"] = [read, *end]

    status, stdout, stderr = run("logs", "ddp.yaml", "-f")

    assert expected == (status, stdout, "unexpected EOF" in stderr)


def test_without_the_right_to_read_logs(cluster, run):
    cluster.show("running")
    error = 'Error from server (Forbidden): pods "a" is forbidden: cannot get "pods/log"'
    cluster.logs[pod(cluster, "rank", 0), "main"] = [failure(Outcome(1, "", error))]

    assert 1 == run("logs", "ddp.yaml", "-f")[0]
    assert isinstance(cluster.logs.popitem()[1][0], ClusterError)


def test_follow_ends_with_a_replica_that_never_ran(cluster, run):
    cluster.show("waiting")
    for item in cluster.objects:
        if item["kind"] == "ConfigMap":
            ended = json.loads(item["data"]["state"]) | {"phase": "Ended", "code": 1}
            item["data"]["state"] = json.dumps(ended | {"reason": "X", "message": "y", "ended": 1})

    assert (0, "") == run("logs", "waiting.yaml", "-f", "--role", "ps")[:2]


def test_a_log_ends_if_the_api_server_does_not_respond(cluster, run):
    cluster.show("running")
    cluster.logs[pod(cluster, "rank", 0), "main"] = [
        *("a", None, None, "b", None, None, "c"),
        *[None] * 9,
    ]

    status, out, err = run("logs", "ddp.yaml")

    assert (1, "a\nb\nc\n") == (status, out)
    assert "the API server does not respond" in err


def keep(cluster, title, *lines):
    """Let the status of the job contain the last lines of a replica."""
    (record,) = (item for item in cluster.objects if item["kind"] == "ConfigMap")
    record["data"] = {**record["data"], "lastLog": "\n".join([title, *lines])}


KEPT = "rank-1, ddp-rank-1-gone, exit code 137, after 0 restarts, 2026-11-22T11:32:41Z"


def without_old_pod(cluster, role, index):
    """Delete the older pods of a replica from the recording."""
    newest = pod(cluster, role, index)
    key = "batch.kubernetes.io/job-completion-index"
    cluster.objects = [
        item
        for item in cluster.objects
        if item["kind"] != "Pod"
        or item["metadata"]["labels"].get(key) != str(index)
        or item["metadata"]["name"] == newest
    ]
    return newest


@pytest.mark.parametrize(
    ("tail", "lines"),
    [([], ["a", "b", r"\x1b[2J"]), (["--tail=2"], ["b", r"\x1b[2J"]), (["--tail=0"], []),
     (["--tail=9"], ["a", "b", r"\x1b[2J"])],
)  # fmt: skip
def test_the_last_lines_of_a_pod_that_is_gone(cluster, run, tail, lines):
    cluster.show("restarted")
    without_old_pod(cluster, "rank", 1)
    keep(cluster, KEPT, "a", "b", "\x1b[2J")

    status, stdout, stderr = run("logs", "ddp.yaml", "--rank", "1", "--previous", *tail)

    assert (status, stdout.splitlines()) == (0, lines)
    assert "ddp-rank-1-gone is gone; its last lines, which ConfigMap ddp.status keeps:" in stderr


def test_the_last_lines_of_a_replica_without_a_pod(cluster, run):
    cluster.show("restarted")
    cluster.objects = [item for item in cluster.objects if item["kind"] != "Pod"]
    keep(cluster, KEPT, "a")

    assert run("logs", "ddp.yaml", "--rank", "1", "--previous")[:2] == (0, "a\n")
    assert run("logs", "ddp.yaml", "--rank", "1")[0] == 1


@pytest.mark.parametrize(
    ("title", "words"),
    [
        (KEPT, ["--rank", "0"]),
        (KEPT, ["--rank", "1", "-c", "wait-for-peers"]),
        (KEPT.replace("ddp-rank-1-gone", "init container fetch of x"), ["--rank", "1"]),
        (KEPT.replace("ddp-rank-1-gone", "NEWEST"), ["--rank", "1"]),
        ("tampered", ["--rank", "1"]),
    ],
)
def test_the_last_lines_of_another_log_are_not_those_of_the_previous_one(
    cluster, run, title, words
):
    cluster.show("restarted")
    without_old_pod(cluster, "rank", 0)
    keep(cluster, title.replace("NEWEST", without_old_pod(cluster, "rank", 1)), "kept")

    status, stdout, stderr = run("logs", "ddp.yaml", *words, "--previous")

    assert (status, stdout) == (1, "")
    assert "omit --previous" in stderr


def test_the_log_of_an_older_pod_is_preferred_to_its_last_lines(cluster, run):
    cluster.show("restarted")
    keep(cluster, KEPT, "kept")
    cluster.logs[pod(cluster, "rank", 1, newest=False), "main"] = ["older"]

    assert run("logs", "ddp.yaml", "--rank", "1", "--previous")[:2] == (0, "older\n")


def test_the_log_before_a_restart_of_the_container_is_preferred_to_last_lines(cluster, run):
    cluster.show("restarted")
    name = without_old_pod(cluster, "rank", 1)
    keep(cluster, KEPT, "kept")
    (found,) = (item for item in cluster.objects if item["metadata"]["name"] == name)
    found["status"]["containerStatuses"][0]["restartCount"] = 1
    cluster.logs[name, "main"] = ["before"]

    assert run("logs", "ddp.yaml", "--rank", "1", "--previous")[:2] == (0, "before\n")
