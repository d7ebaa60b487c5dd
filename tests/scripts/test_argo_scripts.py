"""Run the scripts of argo/ in dash and busybox, with a stub kubectl."""

import marshal
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT

ARGO = ROOT / "argo"
SHELLS = {
    "dash": [shutil.which("dash")],
    "busybox": [os.environ.get("MLGEN_BUSYBOX") or shutil.which("busybox"), "sh"],
}

PATIENCE = 60
"""Timeout of a script in seconds."""

KUBECTL = """#!{python} -SE
import marshal, sys  # importing json would double the run time

folder, words = "{folder}", sys.argv[1:]
call = " ".join(words).partition(" --output go-template=")[0]
with open(folder + "/calls", "a") as calls:
    print(call, file=calls)
with open(folder + "/world", "rb") as file:
    world = marshal.load(file)


def end(text="", error="", code=0):
    with open(folder + "/world", "wb") as file:
        marshal.dump(world, file)
    sys.stdout.write(text)
    sys.stderr.write(error)
    sys.exit(code)


for fault in world["faults"]:
    if fault["words"] in call and fault["times"]:
        fault["times"] -= 1
        end(error=fault["error"] + "\\n", code=1)
status = world["status"]
if words[0] == "get" and "job" in words[1] and call != " ".join(words):
    looks = world["looks"]
    end(looks.pop(0) if len(looks) > 1 else looks[0])
if words[:2] == ["get", "pods"]:
    end(world["pods"])
if words[:2] == ["get", "--filename"]:
    end("service/mnist\\njob.batch/mnist-worker\\npersistentvolumeclaim/data\\n")
if call.startswith("get configmap/mnist-status --ignore-not-found"):
    end(status["owner"] if status else "")
if call.startswith("delete configmap/mnist-status"):
    world["status"] = None
if words[0] == "create":
    import json

    config_map = json.loads(sys.stdin.read())
    world["status"] = {{"owner": config_map["metadata"]["ownerReferences"][0]["uid"], "data": {{}}}}
if call.startswith(("get configmap/mnist-status", "patch configmap/mnist-status")) and not status:
    end(error='Error from server (NotFound): configmaps "mnist-status" not found\\n', code=1)
if call.startswith("get configmap/mnist-status"):
    end("".join(f"{{key}} {{value}}\\n" for key, value in sorted(status["data"].items())))
if call.startswith("patch configmap/mnist-status"):
    import json

    patch = json.loads(words[-1].removeprefix("--patch="))["data"]
    status["data"].update(patch)
    world["history"].append(patch)
end("done\\n")
"""


def workload(name, role, **fields):
    """Return a line of the output of `look`."""
    known = {"decides": "false", "owner": "-", "judged": "-", "wanted": 2, "completions": 2}
    known |= {"active": 2, "ready": 2, "succeeded": 0, "failed": 0, "end": ""}
    return " ".join(str(value) for value in (name, role, *(known | fields).values())) + "\n"


def worker(**fields):
    """Return the line of the deciding Job."""
    return workload("job/mnist-worker", "worker", **{"decides": "true", "owner": "uid-1"} | fields)


def server(**fields):
    return workload("statefulset/mnist-ps", "ps", **{"completions": 0} | fields)


def pod(name, end="- 0 -", **fields):
    """Return a line of the output of `look_at_pods`."""
    known = {"phase": "Failed", "disrupted": "-", "kind": "main"} | fields
    restarts = known.pop("restarts", "0 - - 0")
    return f"{name} {' '.join(known.values())} {end} {restarts}\n"


COMPLETE = "Complete CompletionsReached all pods have succeeded"
BACKOFF = "Failed BackoffLimitExceeded Job has reached the specified backoff limit"
POLICY = "Failed PodFailurePolicy Container main for pod x/y failed with exit code 42"
OWN = {"owner": "uid-1", "data": {}}
FIRST, SECOND = "2026-11-20T22:00:01Z", "2026-11-20T22:00:02Z"


@pytest.fixture(params=SHELLS)
def shell(request):
    if not SHELLS[request.param][0]:
        pytest.skip(f"there is no {request.param} (a busybox can be named by MLGEN_BUSYBOX)")
    return SHELLS[request.param]


class Ended:
    """The result of a script: exit code, output, recorded status and kubectl calls."""

    def __init__(self, folder, process):
        self.code, self.out, self.err = process.returncode, process.stdout, process.stderr
        world = marshal.loads((folder / "world").read_bytes())
        self.status, self.history = world["status"], world["history"]
        calls = folder / "calls"
        self.calls = calls.read_text().splitlines() if calls.exists() else []
        log = folder / "termination-log"
        self.verdict = log.read_text().strip() if log.exists() else None

    @property
    def conditions(self):
        """Status, reason and message of each condition, without the time."""
        fields = {k: v.split(" ", 2) for k, v in self.status["data"].items() if k[0].isupper()}
        return {key: f"{words[0]} {words[2]}" for key, words in fields.items()}

    def called(self, words):
        return [call for call in self.calls if words in call]


@pytest.fixture
def run(shell, tmp_path):
    """Run a script of argo/; `looks` are the results of `look`, of which the last repeats."""
    tools = tmp_path / "tools"
    tools.mkdir()

    def run(script, *looks, pods="", status=None, faults=(), kubectl=True, **env):
        world = {"looks": list(looks) or [""], "pods": pods, "status": status, "history": []}
        world["faults"] = [{"times": 999, "error": "x"} | fault for fault in faults]
        (tmp_path / "world").write_bytes(marshal.dumps(world))
        for name in ("calls", "termination-log"):
            (tmp_path / name).unlink(missing_ok=True)
        if kubectl:
            program = tools / "kubectl"
            program.write_text(KUBECTL.format(python=sys.executable, folder=tmp_path))
            program.chmod(0o755)
        path = os.environ["PATH"]
        if not kubectl:
            folders = (p for p in path.split(":") if not (Path(p) / "kubectl").exists())
            path = ":".join(folders)
        process = subprocess.run(
            [*shell, str(ARGO / script)],
            env={
                "PATH": f"{tools}:{path}",
                "MLGEN_JOB": "mnist",
                "MLGEN_POLL": "0",
                "TERMINATION_LOG": str(tmp_path / "termination-log"),
                **env,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        return Ended(tmp_path, process)

    return run


@pytest.fixture
def attempt(run, tmp_path):
    def attempt(*looks, number=0, manifests="kind: Job\n", **world):
        (tmp_path / "manifests.yaml").write_text(manifests)
        env = {
            "MLGEN_MANIFESTS": str(tmp_path / "manifests.yaml"),
            "MLGEN_CONFIG_MAP": "mnist-manifests",
            "WORKFLOW": "mnist-x",
            "WORKFLOW_UID": "uid-1",
            "ATTEMPT": str(number),
            "ARGO_PROGRESS_FILE": str(tmp_path / "progress"),
        }
        return run("attempt.sh", *looks, **env | world)

    return attempt


# attempt.sh


def test_an_attempt_submits_the_job_and_exits_0_when_it_succeeds(attempt, tmp_path):
    ended = attempt(
        "",
        worker(owner="-", active=2, ready=0) + server(ready=0),
        worker(ready=2) + server(),
        worker(ready=1, active=1, succeeded=1) + server(),
        worker(active=0, ready=0, succeeded=2, end=COMPLETE) + server(),
    )

    assert (0, None) == (ended.code, ended.verdict)
    assert {
        "Created": "True JobCreated: mnist is created",
        "Running": "True JobRunning: job/mnist-worker is running",
    } == ended.conditions
    assert "startTime" in ended.status["data"]
    assert ["active 2, succeeded 0, failed 0", "active 1, succeeded 1, failed 0"] == [
        patch["replicas.worker"] for patch in ended.history if "replicas.worker" in patch
    ][:2]
    assert "active 2" == ended.status["data"]["replicas.ps"]
    assert "1/2\n" == (tmp_path / "progress").read_text()
    assert [
        "delete job,statefulset --selector mlgen.dev/job=mnist --cascade=foreground --timeout=15m"
    ] == ended.called("delete job")
    assert ended.called("apply --server-side")


def test_the_workflow_owns_all_submitted_objects_except_volume_claims(attempt):
    ended = attempt("", worker(end=COMPLETE))

    owned = [call for call in ended.calls if call.startswith("patch") and "ownerRef" in call]
    assert ["service/mnist", "job.batch/mnist-worker"] == [call.split()[1] for call in owned]
    assert '"name":"mnist-x","uid":"uid-1"' in owned[0]


def test_a_new_workflow_discards_the_status_of_an_earlier_one(attempt):
    before = {"owner": "uid-0", "data": {"Failed": f"True {FIRST} JobFailed: x"}}

    ended = attempt("", worker(end=COMPLETE), status=before)

    assert "uid-1" == ended.status["owner"]
    assert "Failed" not in ended.conditions


def failed(attempt, *lines, end=BACKOFF, **env):
    return attempt("", worker(), worker(end=end), pods="".join(lines), **env)


@pytest.mark.parametrize(
    ("code", "verdict"),
    [*((code, "permanent") for code in (1, 127)), *((code, "retryable") for code in (128, 255))],
)
def test_the_step_exits_with_the_exit_code_of_the_container(code, verdict, attempt):
    ended = failed(attempt, pod("mnist-worker-1-x", f"{FIRST} {code} Error"))

    text = f"mnist-worker-1-x exited with {code}"
    assert (code, f"training {verdict}: {text}") == (ended.code, ended.verdict)
    assert ended.out.endswith(f"training {verdict}: {text}\n")
    condition = {"permanent": "Failed", "retryable": "Restarting"}[verdict]
    assert f"True JobFailed: {text}" == ended.conditions[condition]
    assert bool(ended.called("annotate job/mnist-worker mlgen.dev/judged=true")) == (
        verdict == "retryable"
    )


@pytest.mark.parametrize(
    ("code", "verdict"), [(3, "retryable"), (138, "retryable"), (143, "permanent")]
)
def test_a_job_can_list_retryable_exit_codes(code, verdict, attempt):
    line = pod("mnist-worker-1-x", f"{FIRST} {code} Error")

    ended = failed(attempt, line, MLGEN_RETRYABLE="3 138")

    assert ended.verdict.startswith(f"training {verdict}: ")


def test_the_first_failed_pod_determines_the_exit_code_not_the_reason_of_the_job(attempt):
    lines = [
        pod("mnist-worker-0-x", f"{SECOND} 1 Error"),
        pod("mnist-worker-1-x", f"{FIRST} 143 Error"),
    ]

    assert 143 == failed(attempt, *lines, end=POLICY).code


def test_the_higher_exit_code_counts_if_two_fail_in_the_same_second(attempt):
    lines = [
        pod("mnist-worker-0-x", f"{FIRST} 1 Error"),
        pod("mnist-worker-1-x", f"{FIRST} 137 OOMKilled"),
        pod("mnist-worker-2-x", f"{FIRST} 1 Error"),
    ]

    ended = failed(attempt, *lines)

    assert 137 == ended.code
    assert "training permanent: mnist-worker-1-x exited with 137, OOMKilled" == ended.verdict


def test_oom_can_be_retried(attempt):
    line = pod("mnist-worker-1-x", f"{FIRST} 137 OOMKilled")

    ended = failed(attempt, line, MLGEN_RETRY_OOM="true")

    assert "training retryable: mnist-worker-1-x exited with 137, OOMKilled" == ended.verdict


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [pod("mnist-worker-1-x", f"{FIRST} 1 Error", disrupted="Disrupted")],
        [pod("mnist-worker-1-x", f"{FIRST} 0 Completed", phase="Succeeded")],
    ],
)
def test_a_deleted_or_disrupted_pod_is_retryable(lines, attempt):
    ended = failed(attempt, *lines, MLGEN_RETRYABLE="3")

    assert 143 == ended.code
    assert ended.verdict == (
        "training retryable: a pod of job/mnist-worker was deleted, drained or preempted"
        " (BackoffLimitExceeded)"
    )


def test_a_failed_init_container_is_retryable(attempt):
    line = pod("mnist-worker-1-x", f"{FIRST} 75 Error", kind="init")

    ended = failed(attempt, line)

    text = "an init container of mnist-worker-1-x exited with 75"
    assert (75, f"training retryable: {text}") == (ended.code, ended.verdict)


def test_the_last_exit_code_is_reported_after_the_pod_is_deleted(attempt):
    """A Job whose pods restart in place deletes these pods when it fails."""
    restarting = pod("mnist-worker-1-x", phase="Running", restarts=f"2 CrashLoopBackOff {FIRST} 42")

    ended = attempt(
        "", worker(), worker(ready=1), worker(active=0, ready=0, end=BACKOFF), pods=restarting
    )

    assert "training permanent: mnist-worker-1-x exited with 42" == ended.verdict


def test_an_exceeded_deadline_is_a_permanent_failure(attempt):
    end = "Failed DeadlineExceeded Job was active longer than specified deadline"
    line = pod("mnist-worker-1-x", f"{FIRST} 143 Error")

    ended = failed(attempt, line, end=end)

    assert 124 == ended.code
    assert ended.verdict == (
        "training permanent: job/mnist-worker: Job was active longer than specified deadline"
    )


def test_a_job_deleted_by_hand_is_not_retried(attempt):
    ended = attempt("", worker(), "")

    assert (1, "training permanent: the deciding Job was deleted by hand") == (
        ended.code,
        ended.verdict,
    )


def test_the_attempt_fails_when_another_role_fails(attempt):
    evaluator = workload("job/mnist-evaluator", "evaluator", end=POLICY)
    line = pod("mnist-evaluator-0-x", f"{FIRST} 42 Error")

    ended = attempt("", worker(), worker() + evaluator, pods=line)

    text = "training permanent: mnist-evaluator-0-x exited with 42"
    assert (42, text) == (ended.code, ended.verdict)


def test_the_attempt_fails_when_a_server_crash_loops(attempt):
    looping = [
        pod("mnist-ps-1", phase="Running", restarts=f"4 CrashLoopBackOff {FIRST} 9"),
        pod("mnist-ps-0", phase="Running", restarts=f"5 CrashLoopBackOff {FIRST} 3"),
        pod("mnist-worker-0-x", phase="Running", restarts=f"6 CrashLoopBackOff {FIRST} 4"),
    ]

    ended = attempt("", worker(), worker() + server(ready=1), pods="".join(looping))

    text = "mnist-ps-0 crashed 5 times, last with exit code 3"
    assert (3, f"training permanent: {text}") == (ended.code, ended.verdict)
    assert f"True CrashLoopBackOff: {text}" == ended.conditions["Failed"]


def test_the_attempt_fails_when_a_server_keeps_exiting_with_0(attempt):
    line = pod("mnist-ps-0", phase="Running", restarts=f"5 CrashLoopBackOff {FIRST} 0")

    ended = attempt("", worker(), worker() + server(ready=1), pods=line)

    text = "training permanent: mnist-ps-0 crashed 5 times, last with exit code 0"
    assert (1, text) == (ended.code, ended.verdict)


def test_a_retry_resumes_watching_the_job_of_a_lost_watcher(attempt):
    ended = attempt(worker(), worker(), worker(end=COMPLETE), number=1, status=OWN)

    assert 0 == ended.code
    assert not ended.called("delete job")
    assert not ended.called("apply")
    assert ended.called("patch job.batch/mnist-worker")  # in case the lost watcher did not
    assert "Restarting" not in ended.conditions


def test_a_retry_judges_a_failure_that_the_lost_watcher_did_not(attempt):
    line = pod("mnist-worker-1-x", f"{FIRST} 42 Error")

    ended = attempt(worker(end=POLICY), number=1, status=OWN, pods=line)

    assert 42 == ended.code
    assert not ended.called("apply")


@pytest.mark.parametrize(
    "before", [worker(judged="true", end=BACKOFF), worker(judged="true"), worker(owner="uid-0")]
)
def test_a_judged_job_or_one_of_another_workflow_is_resubmitted(before, attempt):
    ended = attempt(
        before, worker(ready=0), worker(ready=0), worker(), worker(end=COMPLETE),
        number=1, status=OWN,
    )  # fmt: skip

    restarting, running = (
        [patch[name].split()[0] for patch in ended.history if name in patch]
        for name in ("Restarting", "Running")
    )
    assert (0, 1) == (ended.code, len(ended.called("apply")))
    assert (["True", "False"], ["True"]) == (restarting, running)


def test_running_and_restarting_are_never_both_true(attempt):
    data = {"Running": f"True {FIRST} JobRunning: job/mnist-worker is running"}
    status = {"owner": "uid-1", "data": data}
    line = pod("mnist-worker-1-x", f"{FIRST} 143 Error")

    ended = attempt(worker(), worker(), worker(end=BACKOFF), status=status, pods=line)

    assert {
        "Created": "True JobCreated: mnist is created",
        "Running": "False JobFailed: mnist-worker-1-x exited with 143",
        "Restarting": "True JobFailed: mnist-worker-1-x exited with 143",
    } == ended.conditions


@pytest.mark.parametrize(
    "error",
    [
        'Error from server (Forbidden): x is forbidden: User "y" cannot patch resource "jobs"',
        'The Job "mnist-worker" is invalid: spec.template: Required value',
        "error: error parsing /manifests/manifests.yaml: error converting YAML to JSON: yaml: x",
        'error: resource mapping not found for name: "m": no matches for kind "PodGroup" in x',
        'Error from server (BadRequest): strict decoding error: unknown field "spec.foo"',
        "Error from server: failed to create typed patch object (a/b; batch/v1, Kind=Job): .x",
        'Error from server: admission webhook "x" denied the request: no',
        "error: no objects passed to apply",
    ],
)
def test_a_permanent_submission_error_is_reported_without_a_retry(error, attempt):
    ended = attempt("", worker(), faults=[{"words": "apply --server", "error": error}])

    expected = error.replace('"', "")
    assert 1 == ended.code
    assert f"training permanent: kubectl apply: {expected}" == ended.verdict
    assert 1 == len(ended.called("apply --server"))
    assert f"True JobNotSubmitted: kubectl apply: {expected}" == ended.conditions["Failed"]


def test_missing_permissions_are_reported_even_if_no_condition_can_be_recorded(attempt):
    error = 'Error from server (Forbidden): configmaps is forbidden: cannot get resource "x"'

    ended = attempt("", faults=[{"words": "configmap", "error": error}])

    assert 1 == ended.code
    assert ended.verdict == f"training permanent: kubectl get: {error}".replace('"', "")


@pytest.mark.parametrize("words", ["apply", "get job,statefulset,pod", "get pods", "delete job"])
def test_the_attempt_waits_for_an_unavailable_api_server(words, attempt):
    error = "The connection to the server 10.0.0.1:6443 was refused"
    line = pod("mnist-worker-1-x", f"{FIRST} 143 Error")

    ended = attempt(
        "", worker(), worker(end=BACKOFF),
        pods=line, faults=[{"words": words, "error": error, "times": 3}],
    )  # fmt: skip

    assert 143 == ended.code
    assert ended.verdict


def test_an_api_server_outage_during_training_is_not_a_failure(attempt):
    fault = {"words": "get job,statefulset --selector", "error": "EOF", "times": 3}

    assert 0 == attempt("", worker(), worker(end=COMPLETE), faults=[fault]).code


def test_a_lasting_api_server_outage_fails_the_watcher_not_the_training(attempt):
    ended = attempt("", worker(), faults=[{"words": "apply", "error": "EOF"}])

    assert (200, None) == (ended.code, ended.verdict)


def test_a_missing_kubectl_fails_the_watcher_not_the_training(attempt):
    ended = attempt(kubectl=False)

    assert (200, None) == (ended.code, ended.verdict)
    assert "has no kubectl" in ended.err


def test_a_missing_config_map_is_reported_by_name(attempt):
    ended = attempt(manifests="")

    assert 1 == ended.code
    assert ended.verdict == (
        "training permanent: ConfigMap mnist-manifests not found, or it has no key manifests.yaml"
    )
    assert ended.conditions["Failed"].startswith("True JobNotSubmitted: ")


def test_manifests_without_a_deciding_job_are_rejected(attempt):
    ended = attempt("", worker(decides="false"))

    assert 1 == ended.code
    assert ended.verdict.endswith("has the labels mlgen.dev/job=mnist,mlgen.dev/decides=true")


def test_a_job_that_finishes_before_the_first_poll_gets_the_running_condition(attempt):
    ended = attempt("", worker(active=0, ready=0, succeeded=2, end=COMPLETE))

    assert ["Created", "Running"] == list(ended.conditions)


# clean.sh


@pytest.fixture
def clean(run):
    def clean(*looks, policy="Running", step="Failed", **world):
        return run("clean.sh", *looks, STATUS=step, MLGEN_CLEAN_POD_POLICY=policy, **world)

    return clean


def status(**conditions):
    data = {
        name: f"{text.split()[0]} {FIRST} {text[5:].strip()}" for name, text in conditions.items()
    }
    return {"owner": "uid-1", "data": data}


DONE = worker(active=0, ready=0, succeeded=2, end=COMPLETE)


def test_cleanup_sets_the_succeeded_condition_and_the_completion_time(clean):
    before = status(Created="True JobCreated: x", Running="True JobRunning: x")

    ended = clean(DONE, step="Succeeded", status=before)

    text = "JobSucceeded: job/mnist-worker has succeeded"
    assert {
        "Created": "True JobCreated: x",
        "Running": f"False {text}",
        "Succeeded": f"True {text}",
    } == ended.conditions
    assert "completionTime" in ended.status["data"]


def test_cleanup_keeps_the_failed_condition_that_the_attempt_recorded(clean):
    before = status(Failed="True JobFailed: mnist-worker-1-x exited with 42")

    ended = clean(worker(end=POLICY), status=before)

    assert before["data"]["Failed"] == ended.status["data"]["Failed"]


def test_the_reason_of_the_last_attempt_is_reported_when_no_attempts_are_left(clean):
    before = status(Restarting="True JobFailed: mnist-worker-1-x exited with 143")

    ended = clean(worker(end=BACKOFF), status=before)

    text = "JobFailed: no attempts left; mnist-worker-1-x exited with 143"
    assert {"Restarting": f"False {text}", "Failed": f"True {text}"} == ended.conditions


def test_a_stopped_job_is_suspended_and_reported_as_stopped(clean):
    ended = clean(worker() + server(), policy="None", status=status(Running="True JobRunning: x"))

    assert ended.conditions["Failed"].startswith("True JobStopped: ")
    assert [
        'patch job/mnist-worker --type=merge --patch {"spec":{"suspend":true}}',
        'patch statefulset/mnist-ps --type=merge --patch {"spec":{"replicas":0}}',
    ] == ended.called('{"spec"')


def test_policy_none_keeps_all_workloads(clean):
    ended = clean(DONE + server(), policy="None", step="Succeeded", status=OWN)

    assert not ended.called("delete")
    assert not ended.called('{"spec"')


def test_policy_running_stops_running_workloads_and_keeps_finished_ones(clean):
    evaluator = workload("job/mnist-evaluator", "evaluator", active=1)

    ended = clean(DONE + server() + evaluator, step="Succeeded", status=OWN)

    assert ["statefulset/mnist-ps", "job/mnist-evaluator"] == [
        call.split()[1] for call in ended.called('{"spec"')
    ]
    assert not ended.called("delete")
    assert "active 0" == ended.status["data"]["replicas.ps"]
    assert "active 0, succeeded 2, failed 0" == ended.status["data"]["replicas.worker"]


def test_policy_all_deletes_all_objects_of_the_job_except_tensorboard(clean):
    ended = clean(DONE, policy="All", step="Succeeded", status=OWN)

    (deleted,) = ended.called("delete")
    assert deleted == (
        "delete job,statefulset,service,configmap"
        " --selector mlgen.dev/job=mnist,app.kubernetes.io/component!=tensorboard"
        " --ignore-not-found --wait=false"
    )
    assert "Succeeded" in ended.conditions


def test_cleanup_continues_if_no_condition_can_be_recorded(clean):
    """For example, if the step had no permission to create the ConfigMap."""
    ended = clean(DONE + server(), step="Succeeded")

    assert 0 != ended.code
    assert ended.called("patch statefulset/mnist-ps")


def test_cleanup_fails_immediately_without_permissions(clean):
    fault = {"words": "get job,statefulset", "error": "Error from server (Forbidden): jobs x"}

    ended = clean(faults=[fault], status=OWN)

    assert (1, 1) == (ended.code, len(ended.called("get job")))
    assert fault["error"] in ended.err
    assert "Failed" in ended.conditions


# supervise.sh


@pytest.fixture
def supervise(run):
    def supervise(*looks, policy="Running", workloads="statefulset/mnist-ps", objects="", **world):
        return run(
            "supervise.sh",
            *looks,
            MLGEN_DECIDES="mnist-worker",
            MLGEN_WORKLOADS=workloads,
            MLGEN_OBJECTS=objects,
            MLGEN_CLEAN_POD_POLICY=policy,
            **{"status": {"owner": "", "data": {}}} | world,
        )

    return supervise


def test_the_supervisor_stops_pods_that_keep_running_after_training(supervise):
    ended = supervise("", worker(ready=0), worker(), worker() + server(), DONE + server())

    text = "CompletionsReached: all pods have succeeded"
    assert 0 == ended.code
    assert {
        "Created": "True JobCreated: mnist is created",
        "Running": f"False {text}",
        "Succeeded": f"True {text}",
    } == ended.conditions
    assert ["statefulset/mnist-ps"] == [call.split()[1] for call in ended.called('{"spec"')]
    assert "active 0" == ended.status["data"]["replicas.ps"]


def test_the_supervisor_accesses_objects_only_by_name(supervise):
    ended = supervise(DONE + server(), policy="All", objects="service/mnist configmap/mnist-config")

    assert not ended.called("selector")
    assert ["get job/mnist-worker statefulset/mnist-ps --ignore-not-found"] == ended.called(
        "get job"
    )
    (deleted,) = ended.called("delete")
    assert deleted == (
        "delete job/mnist-worker statefulset/mnist-ps service/mnist configmap/mnist-config"
        " --ignore-not-found --wait=false"
    )


def test_the_supervisor_stops_training_when_another_role_fails(supervise):
    other = workload("job/mnist-evaluator", "evaluator", active=0, end=POLICY)
    late = "Failed DeadlineExceeded Job was active longer than specified deadline"

    ended = supervise(
        worker() + other, worker() + other, worker(end=late) + other,
        workloads="job/mnist-evaluator",
    )  # fmt: skip

    assert [
        'patch job/mnist-worker --type=merge --patch {"spec":{"activeDeadlineSeconds":1}}'
    ] == ended.called("activeDeadline")
    text = (
        "PodFailurePolicy: job/mnist-evaluator: Container main for pod x/y failed with exit code 42"
    )
    assert {
        "Created": "True JobCreated: mnist is created",
        "Running": f"False {text}",
        "Failed": f"True {text}",
    } == ended.conditions
    assert 0 == ended.code


def test_a_tolerated_failure_does_not_stop_training(supervise):
    """With label mlgen.dev/tolerates-failure, as on workers with enableDynamicWorker."""
    other = workload("job/mnist-extra", "extra", decides="tolerated", end=POLICY)

    ended = supervise(worker() + other, DONE + other, workloads="job/mnist-extra")

    assert not ended.called("activeDeadlineSeconds")
    assert ended.conditions["Succeeded"].startswith("True ")


def test_the_supervisor_reports_why_the_deciding_job_failed(supervise):
    ended = supervise(worker(end=BACKOFF) + server())

    assert ended.conditions["Failed"] == (
        "True BackoffLimitExceeded: Job has reached the specified backoff limit"
    )
    assert ended.called("patch statefulset/mnist-ps")


def test_the_supervisor_stops_other_workloads_when_the_deciding_job_is_deleted(supervise):
    ended = supervise(worker() + server(), server())

    assert "True JobDeleted: the deciding Job was deleted by hand" == ended.conditions["Failed"]
    assert ended.called("patch statefulset/mnist-ps")


def test_the_supervisor_survives_an_api_server_outage(supervise):
    faults = [{"words": words, "error": "EOF", "times": 3} for words in ("get job", "patch")]

    ended = supervise(worker() + server(), DONE + server(), faults=faults)

    assert 0 == ended.code
    assert "Succeeded" in ended.conditions


def test_the_supervisor_exits_with_an_error_if_cleanup_fails(supervise):
    faults = [{"words": "patch statefulset", "error": "EOF"}]

    assert 0 != supervise(DONE + server(), faults=faults).code
