"""JobSets that mlgen renders: admission, ranks, order, success and gang restarts."""

import json

import pytest
from support import FIXTURES, RESOURCES

from mlgen import MlgenError, Options, pipeline
from mlgen.checks.pods import with_jobs
from mlgen.documents.files import texts

pytestmark = pytest.mark.long

GANG = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: gemma, namespace: team}
spec:
  framework: jax
  image: example/gemma:1
  command: [python, train.py]
  roles: {worker: {replicas: 2FIELDS}}
  runPolicy: {restartScope: All, backoffLimit: 1}
"""
TOGETHER = ("gemma", 2)

ORDER = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: wide, namespace: team}
spec:
  framework: tensorflow
  image: example/wide:1
  roles:
    chief: {waitFor: [{role: ps, until: Ready}]}
    ps: {replicas: 2}
"""


def rendered():
    """Yield the JobSets of all fixtures, and the Jobs that JobSet creates from them."""
    for path in (*FIXTURES, *RESOURCES):
        try:
            jobs = pipeline.render(texts((str(path),)), Options(jobset=True)).jobs
        except MlgenError:
            continue
        for job in jobs:
            yield from (i for i in with_jobs(job.objects) if i["kind"] in ("JobSet", "Job"))


def test_every_fixture_is_admitted(team):
    items = []
    for item in rendered():
        metadata = item["metadata"] | {"namespace": team.name}
        items.append(item | {"metadata": metadata})
    listed = {"apiVersion": "v1", "kind": "List", "items": items}
    text = team.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(listed))

    assert text.count("created (server dry run)") == len(items)


def uids(team):
    return {pod["metadata"]["uid"] for pod in team.pods("gemma")}


def test_host_names_are_those_in_the_variables(team):
    team.apply(GANG.replace("FIELDS", ""))
    team.until_running(*TOGETHER)
    pods = {pod["spec"]["hostname"]: pod["spec"] for pod in team.pods("gemma")}
    [container] = pods["gemma-worker-0-1"]["containers"]
    env = {each["name"]: each.get("value") for each in container["env"]}
    host = env["COORDINATOR_ADDRESS"].partition(":")[0]
    [service] = [each for each in team.listed("services") if each["metadata"]["name"] == "gemma"]

    assert set(pods) == {"gemma-worker-0-0", "gemma-worker-0-1"}
    assert host == f"gemma-worker-0-0.{pods['gemma-worker-0-0']['subdomain']}"
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"]


def test_a_gang_restarts_until_its_limit(team):
    team.apply(GANG.replace("FIELDS", ""))
    team.until_running(*TOGETHER)
    first = uids(team)

    team.fail("gemma", "worker")
    team.until(lambda: team.state("gemma") == ("", 1) and not uids(team) & first)
    team.until_running(*TOGETHER)
    team.fail("gemma", "worker")

    team.until(lambda: team.state("gemma")[0] == "Failed")
    team.until(lambda: "Running" not in team.phases("gemma"))


def test_disruptions_do_not_count(team):
    team.apply(GANG.replace("FIELDS", ", retryableExitCodes: [3]"))
    for restarts in range(1, 4):
        team.until_running(*TOGETHER)
        before = uids(team)
        disrupted = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
        }
        team.fail("gemma", "worker", 137, conditions=[disrupted])
        team.until(
            lambda n=restarts, old=before: team.state("gemma") == ("", n) and not uids(team) & old
        )
    team.until_running(*TOGETHER)
    team.fail("gemma", "worker", 3)
    team.until(lambda: team.state("gemma") == ("", 4))
    team.until_running(*TOGETHER)

    assert team.jobset("gemma")["status"]["restartsCountTowardsMax"] == 1


def test_a_permanent_exit_code_ends_the_gang(team):
    team.apply(GANG.replace("FIELDS", ", retryableExitCodes: [3]"))
    team.until_running(*TOGETHER)
    team.fail("gemma", "worker", 4)

    team.until(lambda: team.state("gemma") == ("Failed", 0))


def test_order_and_the_end_of_servers(team):
    team.apply(ORDER)
    team.until_running("wide", 3)
    created = {
        each["metadata"]["name"]: each["metadata"]["creationTimestamp"]
        for each in team.listed("jobs")
    }
    assert created["wide-ps-0"] <= created["wide-chief-0"]

    team.finish("wide", role="chief")

    team.until(lambda: team.state("wide") == ("Completed", 0))
    team.until(lambda: [job["metadata"]["name"] for job in team.listed("jobs")] == ["wide-chief-0"])


def test_commands_that_follow_a_job(team):
    job, options = GANG.replace("FIELDS", ""), ("--as", "jobset")
    team.apply(job)
    team.until_running(*TOGETHER)
    assert "Running" in team.mlgen("status", *options, job=job)
    assert "the API server accepts all objects" in team.mlgen("doctor", *options, job=job)

    team.finish("gemma")

    assert not team.mlgen("wait", *options, job=job)  # it exits with 0
    assert "Succeeded" in team.mlgen("status", *options, job=job)
    assert "jobset.x-k8s.io/gemma deleted" in team.mlgen("delete", "--yes", *options, job=job)
    team.until(lambda: not team.listed("pods"))
