"""`mlgen status` and `mlgen wait`, over recorded moments of real jobs."""

import io
import json
import re
from dataclasses import replace

import pytest
from support import live_jobs

from mlgen.live import watch
from mlgen.live.kubectl import ClusterError, Kubectl, Outcome
from mlgen.live.reasons import image_error, scheduling, shortened
from mlgen.live.state import addressed, snapshots, succeeded, waits_for
from mlgen.runtime.progress import Progress, stored_text
from mlgen.topology import Hosts, Wait

MOMENTS = {
    "waiting": "waiting",
    "starting": "starting",
    "running": "ddp",
    "restarting": "ddp",
    "restarted": "ddp",
    "succeeded": "ddp",
    "oom": "oom",
}
"""The job file of each recording."""


NOT_FOUND = (
    "ddp is not in namespace vision; to create it: mlgen render ddp.yaml | kubectl apply -f -"
    " [kubectl]"
)

STOPPING = (
    "ddp: Restarting, ddp-rank-1-795jd exited with code 137; waiting for pods to terminate,"
    " rank 0/3 ready, rank-1 Error: exit code 137"
)


def states(job):
    return watch.states(Kubectl(), live_jobs(f"{job}.yaml"))


HEARD = Progress(
    last=1795273200.0,
    percent=45.5,
    remaining=5400,
    metrics=(("loss", "0.23"), ("lr", "1e-05"), ("epoch", "1.5"), ("x", "\x1b[2J")),
    replica="master-0",
    reporting=3,
    slowest="worker-1",
    slowest_at=1795273140.0,
)
STALLED = "True 2026-11-26T12:10:00Z JobStalled: no report for 600 s; see a: b"


def report(cluster, found=HEARD, **data):
    """Record reports of progress, a minute ago, in the status of the job."""
    (record,) = (item for item in cluster.objects if item["kind"] == "ConfigMap")
    text = stored_text(
        replace(found, last=cluster.now - 60, slowest_at=cluster.now - 90), cluster.now
    )
    record["data"] = {**record["data"], "progress": text, **data}


@pytest.mark.parametrize("is_stalled", [False, True])
def test_the_progress_of_a_job(cluster, run, snapshot, is_stalled):
    cluster.show("running")
    report(cluster, **({"Stalled": STALLED} if is_stalled else {}))

    status, stdout, stderr = run("status", "ddp.yaml")

    assert (0, "") == (status, stderr)
    assert snapshot == stdout
    assert "\x1b" not in stdout
    phase = "Stalled, no report for 600 s; see a: b" if is_stalled else "Running"
    assert f"ddp: {phase}, rank 3/3 ready, 40% done" == watch.line(states("ddp")[0])


def test_a_program_may_report_only_that_it_runs(cluster, run):
    cluster.show("running")
    report(cluster, Progress(replica="worker-0", reporting=1, last=1.0))

    row = next(line for line in run("status", "ddp.yaml")[1].split("\n") if "60s" in line)

    assert ["-", "-", "60s", "worker-0", "1", "-", "-", "-"] == row.split()


def test_the_status_as_json(cluster, run, snapshot):
    cluster.show("running")
    report(cluster)

    status, stdout, stderr = run("status", "ddp.yaml", "-o", "json")

    assert (0, "") == (status, stderr)
    assert snapshot == stdout
    (state,) = json.loads(stdout)
    assert {"loss": "0.23"}.items() <= state["progress"]["metrics"].items()


def test_the_status_of_a_missing_job_as_json(run):
    status, stdout, stderr = run("status", "ddp.yaml", "-o", "json")

    assert (1, "NotFound", f"{NOT_FOUND}\n") == (status, json.loads(stdout)[0]["phase"], stderr)
    assert json.loads(stdout)[0]["progress"] is None


def test_json_is_not_watched(run):
    assert 2 == run("status", "ddp.yaml", "-o", "json", "--watch")[0]


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_page_of_a_job(cluster, run, snapshot, moment):
    cluster.show(moment)

    status, stdout, stderr = run("status", f"{MOMENTS[moment]}.yaml")

    assert (0, "") == (status, stderr)
    assert snapshot == stdout


def test_all_jobs_of_a_namespace_are_read_together_by_mlgens_own_labels(cluster, run):
    cluster.show("running")

    run("status", "ddp.yaml", "oom.yaml")

    assert [
        "get jobs.batch,statefulsets.apps,pods -l mlgen.dev/job in (ddp, mem) -o json",
        "get configmaps -l mlgen.dev/supervises in (ddp, mem) -o json",
    ] == cluster.calls[:2]


def test_a_supervisor_of_an_earlier_version_has_only_recommended_labels(cluster, run):
    cluster.show("restarting")
    before = run("status", "ddp.yaml")
    for item in cluster.objects:
        labels = item["metadata"]["labels"]
        job = labels.pop("mlgen.dev/supervises", None) or labels["mlgen.dev/job"]
        labels["app.kubernetes.io/instance"] = job

    assert before == run("status", "ddp.yaml")
    assert "Restarting" in before[1]


def test_events_are_read_only_if_something_cannot_start(cluster, run):
    cluster.show("waiting")

    run("status", "waiting.yaml")

    assert ["get events --field-selector type=Warning -o json"] == cluster.calls[3:]


def test_events_may_be_forbidden(cluster, run):
    cluster.show("waiting")
    error = 'Error from server (Forbidden): events is forbidden: User "a" cannot list it'
    cluster.answers["get events"] = Outcome(1, "", error)

    status, stdout, _ = run("status", "waiting.yaml")

    assert 0 == status
    assert "evaluator-0" not in stdout


def test_a_job_that_is_not_there(run):
    assert (
        1,
        "",
        f"{NOT_FOUND}\n",
    ) == run("status", "ddp.yaml")


def test_files_without_jobs(cluster, run, tmp_path):  # noqa: ARG001
    file = tmp_path / "a.yaml"
    file.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")

    assert 2 == run("status", str(file))[0]


def test_workloads_that_were_not_created(cluster, run):
    cluster.show("waiting")
    cluster.objects = [item for item in cluster.objects if item["metadata"]["name"] != "mix-worker"]

    assert "\nnot created: Job mix-worker\n" in run("status", "waiting.yaml")[1]


def test_the_record_of_a_job_that_was_cleaned_up(cluster, run):
    cluster.show("succeeded")
    cluster.objects = [item for item in cluster.objects if item["kind"] == "ConfigMap"]

    status, stdout, _ = run("status", "ddp.yaml")

    assert 0 == status
    assert "Succeeded" in stdout
    assert "not created" not in stdout


def test_the_record_of_an_earlier_run_is_not_that_of_this_one(cluster):
    cluster.show("succeeded")
    for item in cluster.objects:
        if item["kind"] == "Job":
            item["metadata"]["uid"] = item["metadata"]["uid"] + "-new"
            item["status"] = {"active": 1}
    cluster.objects = [item for item in cluster.objects if item["kind"] != "Pod"]

    (state,) = states("ddp")

    assert "Pending" == state.phase
    assert () == state.conditions


def test_a_record_without_an_end_is_not_that_of_a_deleted_job(cluster):
    cluster.show("running")
    cluster.objects = [item for item in cluster.objects if item["kind"] == "ConfigMap"]

    (state,) = states("ddp")

    assert ("Pending", ()) == (state.phase, state.conditions)


def test_a_suspended_job(cluster):
    cluster.show("oom")
    for item in cluster.objects:
        item["spec"] = {**item.get("spec", {}), "suspend": True}
        item["status"] = {**item["status"], "conditions": []}
    cluster.objects = [item for item in cluster.objects if item["kind"] == "Job"]

    (state,) = states("oom")

    assert "Suspended" == state.phase
    assert "Suspended" == state.roles[0].pods


def test_the_end_of_the_deciding_job_counts_if_the_supervisor_does_not_record_it(cluster):
    cluster.show("succeeded")
    for item in cluster.objects:
        if item["kind"] == "ConfigMap":
            record = json.loads(item["data"]["state"])
            item["data"]["state"] = json.dumps({"run": record["run"], "uid": record["uid"]})

    assert "Running" == states("ddp")[0].phase
    cluster.now += 3600
    assert "Succeeded" == states("ddp")[0].phase


def test_a_role_whose_pods_cannot_be_created(cluster, run):
    cluster.show("waiting")
    (job,) = [item for item in cluster.objects if item["metadata"]["name"] == "mix-chief"]
    job["status"]["active"] = 0
    message = 'Error creating: pods "mix-chief-0" is forbidden: exceeded quota: q'
    uid = job["metadata"]["uid"]
    cluster.events.append({"involvedObject": {"uid": uid}, "message": message})
    cluster.objects = [
        item for item in cluster.objects if "chief-0" not in item["metadata"]["name"]
    ]

    stdout = run("status", "waiting.yaml")[1]

    assert f"-                       FailedCreate        {message}" in stdout
    assert "No pods" in stdout


def test_a_supervisor_that_does_not_start(cluster):
    cluster.show("running")
    for item in cluster.objects:
        if item["metadata"]["name"] == "ddp-supervisor":
            item["status"]["ready"] = 0
        elif item["metadata"]["name"].startswith("ddp-supervisor-"):
            waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
            item["status"]["containerStatuses"][0]["state"] = {"waiting": waiting}

    (pods,) = states("ddp")[0].stuck

    assert ("supervisor", "ImagePullBackOff") == (pods.replica, pods.reason)


def test_a_job_that_starts_again_is_not_pending(cluster):
    cluster.show("restarting")
    (record,) = [item["data"] for item in cluster.objects if item["kind"] == "ConfigMap"]
    record["state"] = json.dumps({**json.loads(record["state"]), "phase": "Running"})
    (job,) = [item for item in cluster.objects if item["metadata"]["name"] == "ddp-rank"]
    job["spec"]["suspend"] = False
    job["status"] = {"active": 3}

    (state,) = states("ddp")

    assert ("Restarting", "restarting") == (state.phase, state.message)


@pytest.mark.parametrize("order", [1, -1])
def test_a_pod_that_was_replaced_within_a_second_is_not_shown(cluster, order):
    cluster.show("running")
    before = states("ddp")
    pod = next(item for item in cluster.objects if "ddp-rank-1" in item["metadata"]["name"])
    names = {"name": "ddp-rank-1-zzzzz", "uid": "old", "deletionTimestamp": "2030-01-01T00:00:00Z"}
    old = {**pod, "metadata": {**pod["metadata"], **names}, "status": {"phase": "Failed"}}
    cluster.objects = [*cluster.objects, old][::order]

    assert before == states("ddp")


def test_restarts_after_failures_and_after_disruptions_count(cluster):
    cluster.show("restarted")
    (record,) = [item["data"] for item in cluster.objects if item["kind"] == "ConfigMap"]
    record["state"] = json.dumps({**json.loads(record["state"]), "restarts": 2, "disruptions": 3})

    assert 5 == states("ddp")[0].restarts


def test_a_finished_role_without_pods(cluster):
    for moment, job, does in (("succeeded", "ddp", "Complete"), ("oom", "oom", "Failed")):
        cluster.show(moment)
        cluster.objects = [item for item in cluster.objects if item["kind"] != "Pod"]

        assert [does] == [role.pods for role in states(job)[0].roles]


def test_only_some_of_many_stuck_pods_are_listed(cluster):
    cluster.show("waiting")
    (state,) = states("waiting")
    many = replace(state, stuck=state.stuck * 6)

    assert watch.page([many], 0).endswith(
        "\nand 4 more" + " " * 12 + "-" + " " * 23 + "-" + " " * 19 + "-"
    )


@pytest.mark.parametrize(
    ("hosts", "port", "started", "line"),
    [
        (Hosts("mix-ps-", 2, ".mix"), 2222, False, "waits for port 2222 of ps (the pods exist)"),
        (Hosts("mix-ps-", 9, ".mix"), None, False, "waits for 7 of 9 peers: ps-2, ps-3, ps-4 and"),
        (Hosts("mix-ps-", 1, ".mix"), None, True, "waits for 1 of 1 peers: ps-0"),
    ],
)
def test_whom_a_replica_waits_for(cluster, hosts, port, started, line):
    cluster.show("waiting")
    for item in cluster.objects:
        if item["metadata"]["name"] in ("mix-ps-0", "mix-ps-1"):
            item["status"]["podIP"] = "10.0.0.1"
    (snapshot,) = snapshots(Kubectl(), live_jobs("waiting.yaml"))
    waits = (Wait("ps", hosts, port, started=started),)

    assert waits_for(waits, addressed(snapshot)).startswith(line)


def test_a_replica_that_waits_for_one_that_has_succeeded_is_named(cluster):
    """The pod of a Job that has ended keeps its address in its status, but not in DNS."""
    cluster.show("waiting")
    for item in cluster.objects:
        if item["metadata"]["name"] == "mix-ps-0":
            item["status"] |= {"podIP": "10.0.0.1", "phase": "Succeeded"}
    (snapshot,) = snapshots(Kubectl(), live_jobs("waiting.yaml"))
    waits = (Wait("ps", Hosts("mix-ps-", 2, ".mix"), None),)

    assert waits_for(waits, addressed(snapshot), succeeded(snapshot)) == (
        "waits forever for ps-0, which has already succeeded; delete the job, and set"
        " wait.timeoutSeconds"
    )


def test_pods_of_an_earlier_version_may_wait_where_the_job_does_not():
    line = "waits for its peers; see the log of the container wait-for-peers"
    assert line == waits_for((), {})


def test_many_pods_with_the_same_reason_are_one_row(cluster):
    cluster.show("waiting")

    (state,) = states("waiting")

    assert ["chief-0", "ps-0 and 1 more", "worker-0 and 1 more", "evaluator-0"] == [
        each.replica for each in state.stuck
    ]


def test_without_a_terminal_watch_prints_a_line_per_change(cluster, run):
    cluster.show("running")
    cluster.steps = ["running", "restarting", "restarted", "restarted", "succeeded"]

    status, stdout, stderr = run("status", "ddp.yaml", "--watch")

    assert (0, "") == (status, stderr)
    assert [
        "ddp: Running, rank 3/3 ready",
        STOPPING,
        "ddp: Running, rank 3/3 ready",
        "ddp: Succeeded, JobSucceeded: ddp-rank succeeded",
    ] == stdout.splitlines()


def terminal(written):
    """Return the lines that a terminal shows after some texts: the lines that are not erased."""
    lines, text = [], re.sub(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]", "", written)
    for up, line in re.findall(r"(?:(?:\x1b\[(\d+)A)?\x1b\[J)?([^\n\x1b]*)\n", text):
        lines = lines[: len(lines) - int(up or 0)]
        lines.append(line)
    return lines


def test_on_a_terminal_watch_is_a_live_table(cluster, monkeypatch):
    cluster.show("restarting")
    cluster.steps = ["succeeded"]
    stream = io.StringIO()
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setenv("LINES", "40")
    screen = watch.Screen(stream, watch.page, color=True)
    found = watch.poll(Kubectl(), live_jobs("ddp.yaml"), screen.tell)

    (last,) = screen.show(found)

    shown = stream.getvalue()
    assert last.ended
    assert "ddp-rank-1-795jd" in shown
    assert "\x1b[1mJOB " in shown
    assert "\x1b[32mSucceeded\x1b[0m" in shown
    assert terminal(shown) == watch.page([last], cluster.now).split("\n")


def test_a_small_terminal_shows_what_fits_and_the_end_in_full(cluster, monkeypatch):
    cluster.show("waiting")
    stream = io.StringIO()
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("LINES", "6")
    screen = watch.Screen(stream, watch.page, color=False)
    (state,) = states("waiting")

    def found():
        yield [state]
        shown = terminal(stream.getvalue())
        assert len(shown) == 5
        assert max(map(len, shown)) == 30
        assert shown[-1] == "…"
        screen.tell("retrying: \x1b[2J")
        assert terminal(stream.getvalue())[-1] == "retrying: \\x1b[2J"
        yield [state]

    screen.show(found())

    assert terminal(stream.getvalue()) == watch.page([state], cluster.now).split("\n")


def test_ages_are_those_of_kubectl():
    seconds = (0, 119, 120, 150, 600, 10799, 10800, 11000, 28800, 172799, 172800, -5)

    assert [
        *("0s", "119s", "2m", "2m30s", "10m", "179m", "3h", "3h3m", "8h", "47h", "2d", "0s"),
    ] == [watch.age(each) for each in seconds]


def test_the_schedulers_message_without_preemption():
    message = (
        "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. no new claims to deallocate,"
        " preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )

    assert "0/3 nodes are available: 3 Insufficient nvidia.com/gpu" == scheduling(message)
    assert 160 == len(shortened("a b" * 100))


def test_why_an_image_cannot_be_pulled():
    message = 'Back-off pulling image "a/b:1": ErrImagePull: failed to resolve a/b:1: no such host'

    assert "cannot pull a/b:1: no such host" == image_error("a/b:1", message)
    assert "cannot pull a/b:1" == image_error("a/b:1", 'Back-off pulling image "a/b:1"')


# wait


def test_wait_ends_with_the_job(cluster, run):
    cluster.show("running")
    cluster.steps = ["restarting", "restarted", "succeeded"]

    status, stdout, stderr = run("wait", "ddp.yaml")

    assert (0, "") == (status, stdout)
    assert "ddp: Succeeded, JobSucceeded: ddp-rank succeeded" == stderr.splitlines()[-1]


@pytest.mark.parametrize(("code", "status"), [(3, 3), (125, 125), (137, 1), (0, 1)])
def test_wait_exits_with_the_code_of_the_replica_that_failed_first(cluster, run, code, status):
    cluster.show("oom")
    for item in cluster.objects:
        for each in item["status"].get("containerStatuses", ()):
            if "terminated" in each["state"]:
                each["state"]["terminated"]["exitCode"] = code
                each["state"]["terminated"]["reason"] = "Error"

    assert status == run("wait", "oom.yaml")[0]


def test_wait_exits_with_the_recorded_code_but_not_with_that_of_a_deadline(cluster, run):
    cluster.show("succeeded")
    (record,) = [item["data"] for item in cluster.objects if item["kind"] == "ConfigMap"]
    state = json.loads(record["state"])
    for reason, code, status in (("PodFailurePolicy", 42, 42), ("DeadlineExceeded", 124, 1)):
        record["state"] = json.dumps({**state, "code": code, "reason": reason})

        assert status == run("wait", "ddp.yaml")[0]


@pytest.mark.parametrize(
    ("jobs", "status"), [(["ddp", "oom"], 3), (["oom", "ddp"], 3), (["failed", "oom"], 42)]
)
def test_wait_exits_with_the_code_of_the_first_job_that_has_not_succeeded(
    cluster, run, jobs, status
):
    cluster.show("oom")
    failed = cluster.objects
    for item in failed:
        for each in item["status"].get("containerStatuses", ()):
            if "terminated" in each["state"]:
                each["state"]["terminated"] |= {"exitCode": 3, "reason": "Error"}
    cluster.show("succeeded")
    if "failed" in jobs:
        (record,) = [item["data"] for item in cluster.objects if item["kind"] == "ConfigMap"]
        record["state"] = json.dumps(json.loads(record["state"]) | {"code": 42})
    cluster.objects += failed
    files = [f"{name}.yaml".replace("failed", "ddp") for name in jobs]

    assert status == run("wait", *files)[0]


def test_wait_has_a_timeout(cluster, run):
    cluster.show("running")

    status, _, stderr = run("wait", "ddp.yaml", "--timeout", "0s")

    assert 124 == status
    assert "timed out; not finished: ddp" == stderr.splitlines()[-1]


def test_wait_of_a_job_that_is_not_there(run):
    status, _, stderr = run("wait", "ddp.yaml")

    assert 1 == status
    assert "ddp is not in namespace vision" in stderr


@pytest.mark.parametrize("value", ["", "5", "m5", "5 m", "1d"])
def test_durations_are_those_of_kubectl(run, value):
    assert 2 == run("wait", "ddp.yaml", "--timeout", value)[0]


def test_wait_outlives_an_upgrade_of_the_api_server(cluster, run):
    cluster.show("succeeded")
    error = "The connection to the server 10.0.0.1:6443 was refused"
    answers = [Outcome(1, "", error), Outcome(1, "", error)]
    cluster.answers["get jobs"] = lambda: answers.pop() if answers else cluster.objects
    cluster.steps = ["succeeded"] * 2

    status, _, stderr = run("wait", "ddp.yaml")

    assert 0 == status
    assert [
        f"retrying: kubectl failed: {error}",
        "the API server is reachable again",
        "ddp: Succeeded, JobSucceeded: ddp-rank succeeded",
    ] == stderr.splitlines()


def test_an_api_server_that_does_not_come_back_is_an_error(cluster, monkeypatch):
    cluster.answers["get jobs"] = Outcome(1, "", "Unable to connect to the server: no such host")
    monkeypatch.setattr(watch, "PATIENCE", -1.0)

    with pytest.raises(ClusterError, match="no such host"):
        list(watch.poll(Kubectl(), live_jobs("ddp.yaml"), print))


def test_missing_rights_are_an_error_at_once(cluster, run):
    error = 'Error from server (Forbidden): pods is forbidden: User "a" cannot list "pods"'
    cluster.answers["get jobs"] = Outcome(1, "", error)

    hint = "ask your administrator for permission, or use another context"
    message = f"kubectl failed: {error}; {hint} [kubectl]\n"
    assert run("status", "ddp.yaml", "--watch") == (1, "", message)


KEPT = "rank-1, ddp-rank-1-795jd, exit code 137, after 2 restarts, 2026-11-22T11:32:41Z\n"


def keep(cluster, text):
    """Let the status of the job contain the last lines of a replica."""
    (record,) = (item for item in cluster.objects if item["kind"] == "ConfigMap")
    record["data"] = {**record["data"], "lastLog": text}


def test_the_last_lines_of_the_replica_that_failed_first(cluster, run):
    cluster.show("restarting")
    keep(cluster, f"{KEPT}step 40\n\n  ::error::\x1b[2J")

    status, stdout, _ = run("status", "ddp.yaml")

    title = "last lines of rank-1 (ddp-rank-1-795jd, exit code 137):"
    assert (status, stdout.splitlines()[-4:]) == (
        0,
        [title, "  step 40", "  ", r"    \x3a:error::\x1b[2J"],
    )
    (found,) = json.loads(run("status", "ddp.yaml", "-o", "json")[1])
    assert found["log"] == {
        "replica": "rank-1",
        "pod": "ddp-rank-1-795jd",
        "code": 137,
        "restarts": 2,
        "since": "2026-11-22T11:32:41Z",
        "lines": ["step 40", "", "  ::error::\x1b[2J"],
    }


def test_a_container_that_printed_nothing_has_no_last_lines(cluster, run):
    cluster.show("restarting")
    keep(cluster, KEPT)

    assert run("status", "ddp.yaml")[1].endswith("exit code 137):\n  (none)\n")


def test_last_lines_are_printed_only_for_a_job_that_restarts_or_has_failed(cluster, run):
    cluster.show("running")
    keep(cluster, f"{KEPT}step 40")

    assert "step 40" not in run("status", "ddp.yaml")[1]
    assert states("ddp")[0].log.lines == ("step 40",)


def test_last_lines_that_were_tampered_with(cluster, run):
    cluster.show("restarting")
    keep(cluster, KEPT + "line\n" * 99 + "end")
    assert run("status", "ddp.yaml")[1].count("  line") == 39
    for text in ("", "step 40", KEPT.replace("137", "9" * 5000)):
        keep(cluster, text)

        assert "last lines" not in run("status", "ddp.yaml")[1]
