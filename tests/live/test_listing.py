"""`mlgen list`, over the objects of rendered jobs with the status that a cluster adds."""

import io
import json
from dataclasses import replace

import pytest
from live.test_doctor import FORBIDDEN
from live.test_kueue import LISTED, UNKNOWN, V1BETA1, V1BETA2, pending
from live.test_status import HEARD, terminal
from support import FIXTURES, RESOURCES, each_file

from mlgen import validate
from mlgen.checks.pods import with_jobs
from mlgen.live import listing, watch
from mlgen.live.job import name_of
from mlgen.live.kubectl import Kubectl, Outcome
from mlgen.live.listing import JobSummary
from mlgen.objects import supervisor
from mlgen.result import Options
from mlgen.runtime import progress, status
from mlgen.runtime.times import seconds, stamp

CREATED = "2026-11-26T12:00:00Z"
START, NOW = seconds(CREATED), seconds(CREATED) + 3600
KINDS = ("Job", "StatefulSet", "ConfigMap")

JOB = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: NAME, namespace: vision, labels: {team: seeing}}
spec:
  framework: pytorch
  image: a
  resources: {nvidia.com/gpu: 8, cpu: 4}
  roles: {worker: {replicas: 2}}
"""
GANG = f"{JOB}  runPolicy: {{restartScope: All, progress: {{}}}}\n"
WIDE = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: wide, namespace: vision, annotations: {mlgen.dev/owner: ada}}
spec:
  framework: tensorflow
  image: a
  roles:
    chief: {resources: {nvidia.com/gpu: 1}}
    ps: {replicas: 2}
    worker: {replicas: 3, resources: {nvidia.com/gpu: 2, amd.com/gpu: 1}}
"""
QUEUED = f"{JOB}  scheduling: {{gang: kueue, queue: research}}\n"


def written(text, name="train", moment="running", namespace="vision", **options):
    """Return the objects of a job in a cluster, at a moment of its life."""
    found = [
        rendered_at(moment, rendered, namespace)
        for rendered in validate(text.replace("NAME", name), Options(**options)).jobs
    ]
    return [item for items in found for item in items]


def rendered_at(moment, rendered, namespace="vision"):
    """Return the objects of a rendered job with what the API server and controllers write."""
    job = rendered.job
    objects = [item for item in with_jobs(rendered.objects) if item["kind"] in KINDS]
    found = [json.loads(json.dumps(item)) for item in objects]
    for item in found:
        metadata = item["metadata"]
        metadata |= {"uid": f"{namespace}-{metadata['name']}", "creationTimestamp": CREATED}
        metadata["namespace"] = namespace
        if item["kind"] != "ConfigMap":
            item["status"] = status_of(item, moment)
        elif metadata["name"] == f"{job.name}.status" and rendered.topology.supervised:
            item["data"] = record_of(rendered, moment, namespace)
    return found


def status_of(item, moment):
    """Return the status of a workload."""
    spec = item["spec"]
    count = spec.get("replicas" if item["kind"] == "StatefulSet" else "completions", 1)
    if moment == "running" and not spec.get("suspend"):
        ready = "readyReplicas" if item["kind"] == "StatefulSet" else "ready"
        return {"startTime": CREATED, ready: count, "replicas": count, "active": count}
    if moment in ("succeeded", "failed") and item["kind"] == "Job":
        kind = "Complete" if moment == "succeeded" else "Failed"
        ended = {"type": kind, "status": "True", "lastTransitionTime": stamp(START + 60)}
        return {"startTime": CREATED, "conditions": [ended], "succeeded": count}
    return {}


def record_of(rendered, moment, namespace):
    """Return the data of the status of a supervised job."""
    plan = supervisor.plan(rendered.topology, rendered.objects)
    run = f"{namespace}-{supervisor.own_name(rendered.job)}"
    state = status.State(run, uid=f"{namespace}-{plan.deciding[0]}", first=START)
    if moment in ("succeeded", "failed"):
        code = 3 if moment == "failed" else 0
        reason, message = ("JobFailed", "exit code 3") if code else ("JobSucceeded", "all done")
        end = {"ended": START + 60, "code": code, "reason": reason, "message": message}
        state = replace(state, phase="Ended", restarts=2, **end)
    if moment == "waiting":
        return {}
    heard = progress.stored_text(HEARD, NOW)
    return {
        "state": state.text(),
        "Running": f"True {CREATED} JobRunning: it runs",
        progress.KEY: heard,
    }


@pytest.fixture
def show(cluster, run):
    """Function that lists jobs, and returns the exit status, stdout and stderr."""
    cluster.now = NOW

    def show(*objects, words=(), command="list"):
        cluster.objects = list(objects)
        return run(command, *words)

    return show


@pytest.fixture
def day():
    """Objects of jobs in several states, in two namespaces."""
    return [
        *written(GANG, "bert"),
        *written(GANG, "llama", "failed"),
        *written(GANG, "mnist", "waiting"),
        *written(f"{JOB}  runPolicy: {{suspend: true}}\n", "later"),
        *written(JOB, "plain", "succeeded"),
        *written(WIDE, "wide"),
        *written(GANG, "bert", "succeeded", namespace="speech"),
    ]


@pytest.mark.parametrize("words", [(), ("-A",), ("-A", "-o", "wide"), ("-o", "json")], ids=" ".join)
def test_the_jobs_of_a_day(show, day, snapshot, words):
    code, stdout, stderr = show(*day, words=words)

    assert (0, "") == (code, stderr)
    assert snapshot == stdout


def test_names_are_those_that_other_commands_take(show, day):
    code, stdout, _ = show(*day, words=("-A", "-o", "name"), command="ls")

    assert code == 0
    assert ["speech/bert", "vision/bert", "vision/later"] == stdout.split()[:3]


def test_a_namespace_without_jobs(show):
    assert (0, "", "no jobs in namespace vision\n") == show(words=("-n", "vision"))
    assert (0, "", "no jobs in any namespace\n") == show(words=("-A",))
    assert "no jobs in the namespace of kubectl's context\n" == show()[2]
    assert (0, "[]\n") == show(words=("-o", "json"))[:2]


def test_the_namespace_of_the_site_is_the_default(show, day, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mlgen.toml").write_text('namespace = "speech"\n')

    assert "speech/bert\n" == show(*day, words=("-o", "name", "-q"))[1]
    assert "vision/bert" in show(*day, words=("-o", "name", "--no-config"))[1]


@pytest.mark.parametrize(
    "words", [("-A", "-n", "a"), ("--watch", "-o", "json"), ("-o", "name", "-w"), ("-n", "A/b")]
)
def test_wrong_options(show, words):
    assert 2 == show(words=words)[0]


def test_help_shows_the_command_once(run):
    lines = run("--help")[1].splitlines()

    assert 1 == sum(line.lstrip().startswith("list ") for line in lines)
    assert not [line for line in lines if line.lstrip().startswith("ls ")]
    assert 'unknown command "lst"; did you mean "list"?' in run("lst")[2]


def names(show, *objects, words=()):
    return show(*objects, words=("-A", "-o", "name", *words))[1].split()


def test_a_selector_applies_to_labels_of_jobs(show, day):
    other = written(GANG.replace("team: seeing", "team: speaking"), "gpt")
    chosen = ("-l", "team=speaking")

    assert ["vision/gpt"] == names(show, *day, *other, words=chosen)
    assert "vision/gpt" not in names(show, *day, *other, words=("-l", "team!=speaking"))
    assert "45%" in show(*day, *other, words=chosen)[1]
    assert "45%" in show(*day, *other, words=("-l", "mlgen.dev/job=gpt"))[1]


def summary(*objects):
    """Return the only job that the objects show, or None."""
    own = [item for item in objects if name_of(item)]
    (name,) = {name_of(item) for item in own}
    return listing.summary(name, own, NOW)


MOMENTS = ("waiting", "running", "succeeded", "failed")


@each_file(files=[*FIXTURES, *RESOURCES])
def test_the_workloads_show_what_the_plan_does(file):
    for rendered in validate(file).jobs:
        for moment in MOMENTS:
            own = rendered_at(moment, rendered)
            planless = [each for each in own if supervisor.planned(each) is None]
            assert len(planless) < len(own) or not rendered.topology.supervised
            unknown = dict(only_in_the_plan(rendered, own))
            assert in_order(summary(*own), unknown) == in_order(summary(*planless), unknown)


def in_order(job, unknown):
    """Return a job with its roles sorted: the plan has their order."""
    return replace(job, **({"ready": ", ".join(sorted(job.ready.split(", ")))} | unknown))


def only_in_the_plan(rendered, objects):
    """Yield what the workloads alone do not show: values of a summary to ignore."""
    if any(item["kind"] == "StatefulSet" and not item["spec"]["replicas"] for item in objects):
        yield from {"ready": "", "gpus": 0}.items()
    if rendered.topology.decides != "one" and any(role.orders for role in rendered.topology.roles):
        yield from {"phase": "Pending", "since": 0.0}.items()


def test_a_job_that_waits_for_another_role_is_pending(show):
    text = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: order, namespace: vision}
spec:
  framework: generic
  image: a
  roles: {data: {}, worker: {waitFor: [{role: data, until: Complete}]}}
  successPolicy: {role: worker}
"""
    objects = written(text)
    worker = next(item for item in objects if item["metadata"]["name"] == "order-worker")
    assert worker["spec"]["suspend"]

    assert "Pending" in show(*objects)[1]
    worker["metadata"]["annotations"]["mlgen.dev/supervisor"] = "{}"
    assert "Suspended" in show(*objects)[1]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_jobset_is_a_job(moment):
    found = summary(*written(WIDE, moment=moment, jobset=True))

    assert ("tensorflow", 10, "ada") == (found.framework, found.gpus, found.owner)
    assert found.phase == {"waiting": "Pending"}.get(moment, moment.capitalize())


def test_a_jobset_whose_roles_decide_together_ends():
    text = f"{WIDE}  successPolicy: {{roles: [worker, chief]}}\n"

    assert "Succeeded" == summary(*written(text, moment="succeeded", jobset=True)).phase


def test_a_job_of_an_earlier_version_has_only_recommended_labels(cluster, show):
    objects = written(GANG)
    expected = show(*objects)[1]
    for item in objects:
        labels = item["metadata"]["labels"]
        if name := labels.pop("mlgen.dev/supervises", None):
            labels["mlgen.dev/job"] = name
    cluster.calls.clear()

    assert "45%" in expected
    assert (0, expected, "") == show(*objects)
    assert len([call for call in cluster.calls if "/configmaps" in call]) == 2


def record(objects):
    (found,) = (item for item in objects if item["metadata"]["name"] == "train.status")
    return found


@pytest.mark.parametrize("moment", ["succeeded", "failed"])
def test_the_record_of_a_job_outlives_its_workloads(moment):
    found = summary(record(written(GANG, moment=moment)))

    assert (moment.capitalize(), START) == (found.phase, found.created)
    assert ("train", "vision", "pytorch", 0) == (
        found.name,
        found.namespace,
        found.framework,
        found.gpus,
    )


def test_the_record_of_a_job_that_never_ended_is_not_a_job(show):
    assert [] == names(show, record(written(GANG)))
    assert [] == names(show, record(written(GANG, moment="waiting")))


def test_a_half_deleted_job_is_terminating(show):
    objects = sorted(written(GANG), key=lambda item: item["kind"], reverse=True)
    assert "Terminating" not in show(*objects, words=("-o", "wide"))[1]
    for item in objects:
        item["metadata"]["deletionTimestamp"] = CREATED

    while objects[0]["kind"] != "ConfigMap":
        assert "Terminating" in show(*objects, words=("-o", "wide"))[1]
        del objects[0]
    assert [] == names(show, *objects)


@pytest.mark.parametrize(
    "data",
    [
        {"state": "{]", "progress": "[", "Running": "True", "Stalled": "True "},
        {"state": '{"run": 1, "phase": "Ended"}'},
        {"state": '{"phase": "Ended", "code": 1e300}', "progress": '{"lastReportTime": []}'},
        {"state": "[" * 100_000},
        None,
    ],
)
def test_a_tampered_record_does_not_hide_what_the_jobs_show(data):
    objects = written(GANG)
    record(objects)["data"] = data

    found = summary(*objects)

    assert ("Running", None, 0) == (found.phase, found.progress, found.restarts)
    assert summary(record(objects)) is None


def test_other_objects_with_the_labels_are_no_jobs(show):
    (job, *_) = written(JOB)
    del job["metadata"]["labels"]["mlgen.dev/role"]
    metadata = {"name": "a.supervisor", "namespace": "vision"}
    metadata["labels"] = {"mlgen.dev/supervises": "a"}
    plan = {"kind": "ConfigMap", "metadata": metadata, "data": {"plan.json": "{]"}}

    assert [] == names(show, job, plan)


def refused(resource):
    text = f'Error from server (Forbidden): {resource} is forbidden: User "a" cannot list resource'
    return Outcome(1, "", text)


LOST = {
    "statefulsets": "roles that are StatefulSets",
    "configmaps": "restarts, progress and jobs without workloads",
}


@pytest.mark.parametrize("resource", LOST)
def test_what_may_be_listed_is(cluster, show, day, resource):
    expected, told = names(show, *day), LOST[resource]
    path = "/apis/apps/v1" if resource == "statefulsets" else "/api/v1"
    cluster.answers = {f"get --raw {path}/": refused(resource)}

    code, stdout, stderr = show(*day, words=("-A", "-o", "name"))

    assert (0, expected) == (code, stdout.split())
    assert stderr == f"no permission to list {resource} in all namespaces: {told} are not shown\n"
    assert f"{resource} in namespace vision: " in show(*day)[2]


def test_without_permission_to_list_jobs_the_hint_is_a_namespace(cluster, show, day):
    cluster.answers = {"get --raw /apis/batch/v1/jobs": refused("jobs.batch")}

    code, stdout, stderr = show(*day, words=("-A",))

    assert (1, "") == (code, stdout)
    assert stderr.startswith(
        "no permission to list jobs in all namespaces; list those of one: mlgen list -n NAMESPACE"
    )
    assert 0 == show(*day)[0]
    cluster.answers = {"get --raw /apis/batch/v1/namespaces/vision/jobs": refused("jobs.batch")}
    assert show(*day)[2].startswith("no permission to list jobs in namespace vision; ask")


def test_other_errors_of_the_api_server(cluster, show):
    cluster.answers = {"get --raw /api/v1/": Outcome(1, "", "Error from server (BadRequest): a")}

    code, stdout, stderr = show(words=("-l", "a b"))

    assert (1, "") == (code, stdout)
    assert "kubectl failed: Error from server (BadRequest): a" in stderr


@pytest.fixture
def queued(cluster, show):
    """Function that returns the cell of the queue of a job that waits in it."""

    def queued(*objects, newest=UNKNOWN, older=UNKNOWN):
        cluster.answers = {V1BETA2: newest, V1BETA1: older}
        stdout = show(*objects)[1].splitlines()
        return stdout[1].partition("16")[2].partition("60m")[0].strip()

    return queued


def pending_of(uid, position):
    """Return the answer of Kueue's visibility API about a Workload that a Job owns."""
    found = json.loads(pending(("other", 0, 0), ("job-train-1a2b3", position, 7)).stdout)
    found["items"][1]["metadata"]["ownerReferences"] = [{"uid": uid}]
    return Outcome(0, json.dumps(found), "")


def test_the_position_in_a_queue(queued, cluster):
    waiting = written(QUEUED, moment="waiting")
    (job,) = (item for item in waiting if item["kind"] == "Job")
    job["spec"]["suspend"] = True
    found = pending_of("vision-train-worker", 3)

    assert "4 in research" == queued(*waiting, newest=found)
    assert "4 in research" == queued(*waiting, older=found)
    assert "research" == queued(*waiting, newest=pending_of("other", 3))
    assert "research" == queued(*waiting, newest=FORBIDDEN)
    assert "research" == queued(*waiting)
    cluster.calls.clear()
    assert "research" == queued(*written(QUEUED), newest=found)
    assert not [call for call in cluster.calls if "visibility" in call]


def test_the_workload_of_a_group_has_the_name_of_the_job(queued):
    group = f"{GANG}  scheduling: {{gang: kueue, queue: research}}\n"

    assert "4 in research" == queued(
        *written(group, moment="waiting"), newest=pending(("train", 3, 3))
    )


def test_one_request_for_each_queue(cluster, show):
    jobs = [each for name in ("a", "b") for each in written(QUEUED, name, "waiting")]
    cluster.answers = {V1BETA2: LISTED}

    show(*jobs)

    assert 1 == len([call for call in cluster.calls if "pendingworkloads" in call])


def test_watch_prints_a_line_for_each_change(cluster, show):
    later = written(GANG, "bert", "succeeded")

    def end():
        cluster.objects = later

    def deleted():
        cluster.objects = []

    cluster.steps = [end, lambda: None, deleted, lambda: None, interrupt]
    code, stdout, _ = show(*written(GANG, "bert"), words=("--watch",))

    assert code == 130
    assert stdout.splitlines() == [
        "vision/bert: Running, 40% done",
        "vision/bert: Succeeded, JobSucceeded: all done",
        "vision/bert: NotFound",
    ]


def interrupt():
    raise KeyboardInterrupt


def test_watch_tells_once_what_may_not_be_listed(cluster, show, day):
    cluster.answers = {"get --raw /apis/apps/v1/": refused("statefulsets")}
    cluster.steps = [lambda: None, interrupt]

    assert 1 == show(*day, words=("--watch",))[2].count("no permission")


def test_on_a_terminal_watch_is_a_live_table(cluster, day, monkeypatch):
    cluster.now, cluster.objects = NOW, day
    stream = io.StringIO()
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setenv("LINES", "40")
    cluster.steps = [interrupt]

    def page(found, now):
        return listing.page(found, now, everywhere=False, wide=False)

    def read(tell):
        return listing.jobs(kubectl, tell=tell)

    screen, kubectl = watch.Screen(stream, page, color=True), Kubectl()

    with pytest.raises(KeyboardInterrupt):
        screen.show(listing.poll(kubectl, read, screen.tell))

    assert "\x1b[1mJOB " in stream.getvalue()
    assert terminal(stream.getvalue()) == page(listing.jobs(kubectl), NOW).split("\n")


def test_a_text_with_control_characters_is_safe():
    job = JobSummary("a", "b", "Running", owner="\x1b[2J", message="c")

    assert "\x1b" not in listing.page([job], NOW, everywhere=True, wide=True)
    assert "" == listing.page([], NOW, everywhere=True, wide=True)
