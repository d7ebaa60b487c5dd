"""`mlgen logs`: the choice of replica and pod, and following it across restarts."""

import json
from types import SimpleNamespace

import pytest
from support import ROOT, live_jobs

from mlgen.cli._report import is_colored
from mlgen.live import logs, ranks
from mlgen.live.kubectl import Kubectl
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
    assert cluster.calls[-1].endswith(" main tailLines=5 timestamps=true")


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
        ["--all", "--rank", "1"],
        ["--all", "--role", "worker", "--index", "1"],
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

    (now,) = logs.moments(snapshot(job, objects, 0.0), logs.Request(job, [replica]))
    assert now.pods[0]["metadata"]["uid"] == "p"


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
    assert cluster.calls[-1].endswith(" main previous=true timestamps=true")


def at(second, text):
    return f"2026-11-22T11:00:{second:02}.000000000Z {text}"


def test_follow_goes_on_in_a_new_pod(cluster, run):
    cluster.show("running")
    first = pod(cluster, "rank", 1)
    cluster.logs[first, "main"] = [at(1, "a"), at(2, "b")]

    def restarted():
        cluster.show("restarted")
        cluster.logs[pod(cluster, "rank", 1), "main"] = [at(9, "c")]

    cluster.steps = ["restarting", restarted, "succeeded"]

    status, stdout, stderr = run("logs", "ddp.yaml", "--rank", "1", "--follow")

    assert (0, "a\nb\nc\n") == (status, stdout)
    assert stderr.splitlines()[0] == f"{first}: Error: exit code 137"
    assert stderr.splitlines()[1].startswith("rank-1: new pod ddp-rank-1-")


def test_follow_prints_each_line_once_if_the_connection_is_lost(cluster, run):
    cluster.show("running")
    name = pod(cluster, "rank", 0)
    cluster.logs[name, "main"] = [at(1, "a"), at(2, "b"), at(2, "c")]

    def more():
        cluster.logs[name, "main"] = [at(2, "b"), at(2, "c"), at(2, "d"), at(3, "e")]

    cluster.steps = [more, "succeeded"]

    assert "a\nb\nc\nd\ne\n" == run("logs", "ddp.yaml", "-f")[1]
    resumed = [call for call in cluster.calls if "sinceTime" in call]
    options = "follow=true sinceTime=2026-11-22T11:00:02Z timestamps=true"
    assert [f"log {name} main {options}"] == resumed


def test_follow_reads_what_is_left_after_the_end_of_a_container(cluster, run):
    """A stream that breaks just before the end has not delivered the last lines."""
    cluster.show("running")
    name = pod(cluster, "rank", 0)

    def ended():
        for item in cluster.objects:
            if item["metadata"]["name"] == name:
                item["status"]["phase"] = "Succeeded"
                item["status"]["containerStatuses"][0]["state"] = {"terminated": {"exitCode": 0}}
        cluster.logs[name, "main"] = [at(1, "a"), at(2, "b")]

    cluster.logs[name, "main"] = [at(1, "a")]
    cluster.steps = [ended]

    assert "a\nb\n" == run("logs", "ddp.yaml", "-f")[1]
    assert f"log {name} main sinceTime=2026-11-22T11:00:01Z timestamps=true" == cluster.calls[-1]


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
    cluster.logs[name, "main"] = [at(1, "a")]
    cluster.steps = ["running", "succeeded"]

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
        cluster.logs[name, "main"] = [at(5, "b")]

    cluster.logs[name, "main"] = [at(1, "a")]
    cluster.steps = [restarted, "succeeded"]

    status, stdout, stderr = run("logs", "ddp.yaml", "-f")

    assert (0, "a\nb\n") == (status, stdout)
    assert f"rank-0: restart 1 in {name}" == stderr.splitlines()[0]


def test_follow_leaves_a_pod_on_a_lost_node(cluster, run, monkeypatch):
    monkeypatch.setattr(ranks, "SILENCE", 0.1)
    cluster.show("running")
    name = pod(cluster, "rank", 1)

    def replaced():
        cluster.show("restarted")
        for item in cluster.objects:
            if item["metadata"]["name"] == name:  # as the kubelet has reported it last
                item["status"]["containerStatuses"][0]["state"] = {"running": {}}
        own = [at(9, "b"), lambda: cluster.show("succeeded")]
        cluster.logs[pod(cluster, "rank", 1), "main"] = own
        cluster.logs[name, "main"] = [at(1, "a")]

    cluster.logs[name, "main"] = [at(1, "a"), replaced, None]

    assert "a\nb\n" == run("logs", "ddp.yaml", "-f", "--rank", "1")[1]


def test_follow_of_a_job_that_is_not_there(run):
    status, _, stderr = run("logs", "ddp.yaml", "-f")

    assert 1 == status
    assert "ddp is not in namespace vision" in stderr


@pytest.mark.parametrize(("failures", "expected"), [(5, (0, "a\n", False)), (6, (1, "", True))])
def test_follow_reads_a_log_again_up_to_five_times(cluster, run, failures, expected):
    cluster.show("running")
    cluster.steps = [*["running"] * 5, "succeeded"]
    errors = [cluster.refusal("InternalError", "unexpected EOF")] * failures

    def read():
        return errors.pop() if errors else None

    cluster.logs[pod(cluster, "rank", 0), "main"] = [read, at(1, "a")]

    status, stdout, stderr = run("logs", "ddp.yaml", "-f")

    assert expected == (status, stdout, "unexpected EOF" in stderr)


def test_without_the_right_to_read_logs(cluster, run):
    cluster.show("running")
    refusal = cluster.refusal("Forbidden", 'pods "a" is forbidden: cannot get "pods/log"')
    cluster.logs[pod(cluster, "rank", 0), "main"] = [refusal]

    status, _, stderr = run("logs", "ddp.yaml", "-f")

    assert 1 == status
    assert 'cannot get "pods/log"; ask your administrator for permission' in stderr


def test_follow_ends_with_a_replica_that_never_ran(cluster, run):
    cluster.show("waiting")
    for item in cluster.objects:
        if item["kind"] == "ConfigMap":
            ended = json.loads(item["data"]["state"]) | {"phase": "Ended", "code": 1}
            item["data"]["state"] = json.dumps(ended | {"reason": "X", "message": "y", "ended": 1})

    assert (0, "") == run("logs", "waiting.yaml", "-f", "--role", "ps")[:2]


def test_a_log_ends_if_the_api_server_does_not_respond(cluster, run, monkeypatch):
    monkeypatch.setattr(ranks, "LIMIT", 0.2)
    cluster.show("running")
    cluster.logs[pod(cluster, "rank", 0), "main"] = ["a", None]

    status, out, err = run("logs", "ddp.yaml")

    assert (1, "a\n") == (status, out)
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


def three_logs(cluster):
    cluster.show("running")
    for index, lines in enumerate(([at(1, "a"), at(4, "b")], [at(2, "c\rd")], [at(3, "e")])):
        cluster.logs[pod(cluster, "rank", index), "main"] = lines


def test_the_logs_of_all_ranks_in_the_order_of_time(cluster, run):
    three_logs(cluster)

    assert (0, "0 | a\n1 | c\r1 | d\n2 | e\n0 | b\n", "") == run("logs", "ddp.yaml", "--all")


def test_the_color_of_a_rank_does_not_depend_on_the_others(cluster, run, snapshot, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    three_logs(cluster)

    words = ("logs", "ddp.yaml", "--all", "--color", "always")
    page = run(*words)[1]

    assert snapshot == page
    workers = "".join(line for line in page.splitlines(keepends=True) if "0 |" not in line)
    assert workers == run(*words, "--role", "worker")[1]


def test_the_colors_of_a_terminal(monkeypatch):
    """NO_COLOR applies unless the command has --color always."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    screen = SimpleNamespace(isatty=lambda: True)
    assert is_colored(screen)
    assert not is_colored(None)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not is_colored(screen)


def test_replicas_without_ranks_have_a_role_and_an_index():
    job = fixture("tensorflow-ps")
    found = ranks.prefixes(job, logs.replicas(job), color=False)

    assert {"chief-0": "chief-0  | ", "worker-0": "worker-0 | "}.items() <= found.items()


def test_logs_with_limits(cluster, run):
    three_logs(cluster)

    words = ("--all", "--since", "10m", "--tail", "3", "--timestamps")
    page = run("logs", "ddp.yaml", *words)[1]

    assert f"0 | {at(1, 'a')}" == page.splitlines()[0]
    calls = [call for call in cluster.calls if call.startswith("log ")]
    assert {"sinceSeconds=600 tailLines=3 timestamps=true"} == {
        call.split(" main ")[1] for call in calls
    }
    assert 3 == len(calls)


def test_all_logs_without_those_that_cannot_be_read(cluster, run):
    three_logs(cluster)
    cluster.objects = [
        item for item in cluster.objects if item["metadata"]["name"] != pod(cluster, "rank", 2)
    ]
    name = pod(cluster, "rank", 1)
    cluster.logs[name, "main"] = [cluster.refusal("InternalError", "i/o timeout")]

    status, stdout, stderr = run("logs", "ddp.yaml", "--all")

    assert (0, "0 | a\n0 | b\n") == (status, stdout)
    assert f"no log: rank-2\n{name}: kubectl failed: Error from" in stderr


def test_all_logs_of_a_job_that_is_not_there(run):
    for words in ((), ("--follow",)):
        status, _, stderr = run("logs", "ddp.yaml", "--all", *words)
        assert (1, True) == (status, "ddp is not in namespace vision" in stderr)


def test_follow_all_ranks_joins_those_that_start_later(cluster, run):
    three_logs(cluster)
    late = [item for item in cluster.objects if item["metadata"]["name"] == pod(cluster, "rank", 2)]
    cluster.objects = [item for item in cluster.objects if item not in late]

    def restarted():
        cluster.show("restarted")
        for index in (0, 1, 2):
            cluster.logs[pod(cluster, "rank", index), "main"] = [at(9, f"again {index}")]

    cluster.steps = [lambda: cluster.objects.extend(late), "restarting", restarted, "succeeded"]

    status, stdout, stderr = run("logs", "ddp.yaml", "--all", "-f", "--tail", "5")

    first = ["0 | a", "0 | b", "1 | c\r1 | d", "2 | e"]
    again = [f"{index} | again {index}" for index in (0, 1, 2)]
    assert (0, first, again) == (
        status,
        sorted(stdout.split("\n")[:4]),
        sorted(stdout.split("\n")[4:-1]),
    )
    assert [line.split(",")[0] for line in stderr.splitlines()] == [
        "ddp: Running",
        "ddp: Restarting",
        "ddp: Running",
        "ddp: Succeeded",
    ]
    tails = [call.split()[1] for call in cluster.calls if "tailLines" in call]
    assert 2 == len(tails)  # not of the runs that start later


def test_a_reader_that_stops_closes_the_logs(cluster):
    cluster.show("running")
    cluster.logs[pod(cluster, "rank", 0), "main"] = [at(1, "a"), None]
    (job,) = live_jobs("ddp.yaml")
    request = logs.Request(job, logs.replicas(job)[:1])
    lines = ranks.read_logs(Kubectl(), request, print, follow=True)

    assert ranks.LogLine("rank-0", 0, "a") == next(lines)
    lines.close()
    with pytest.raises(StopIteration):
        next(lines)
