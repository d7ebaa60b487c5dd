"""`--as jobset`: one JobSet has the same pods as the job, and expresses its policies."""

import copy
import json
import re
from functools import cache

import pytest
from click.testing import CliRunner
from support import ROOT, without_totals

from mlgen import MlgenError, Options, dialects, frameworks, objects, pipeline
from mlgen.checks.pods import workloads
from mlgen.cli import main
from mlgen.documents.files import Text, texts
from mlgen.jobfile.parser import training_job
from mlgen.objects.labels import numbered
from mlgen.output.yaml import yaml_text
from mlgen.topology import INDEX_NAME
from mlgen.variants import jobset, name_hash

GOLDEN = ["tensorflow-clean-all", "pytorch-restart-all", "generic-order", "tensorflow-kueue"]
INDEX = rf"\d+|\[\d+-\d+\]|\$\({INDEX_NAME}\)"
REASONS = ("random names", "fixed name")

HEAD = """apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: job}
spec:
  framework: %s
  image: i
"""


@pytest.fixture(autouse=True)
def in_project_folder(monkeypatch):
    monkeypatch.chdir(ROOT)


def run(*arguments):
    result = CliRunner().invoke(main, list(map(str, arguments)), catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


@cache
def rendered(path):
    """The jobs in a file as JobSets; [] if JobSet cannot run them. They are cached."""
    try:
        return pipeline.render(texts((str(path),)), Options(jobset=True)).jobs
    except MlgenError as error:
        assert any(reason in str(error) for reason in REASONS)
        return []


def jobset_of(rendered):
    [item] = [item for item in rendered.objects if item["kind"] == "JobSet"]
    return item


def spec_of(tmp_path, text, framework="generic"):
    """The spec of the JobSet of a job file, and its warnings."""
    file = tmp_path / "job.yaml"
    file.write_text(HEAD % framework + text)
    result = pipeline.render(texts((str(file),)), Options(jobset=True))
    return jobset_of(result.jobs[0])["spec"], [str(each) for each in result.problems]


def built(topology):
    built = objects.build(topology)
    return name_hash.in_addresses(topology, built) if topology.job.part_of else built


def plain(job):
    """The pod templates of a rendered job without a JobSet, by the name of the replicated Job."""
    policies = jobset.without_policies(job.job)
    plain_job = policies.__class__(**{**vars(policies), "jobset": False})
    topology = frameworks.get(plain_job.framework).topology(plain_job)
    by_name = workloads(built(topology))
    names = {numbered(role): role for role in topology.roles}
    prefix = f"{plain_job.name}-"
    return {name: by_name[prefix + name]["spec"]["template"] for name in names}


def converted(manifest):
    """The pod templates of a JobSet that mlgen renders as Jobs, by the name of the Job."""
    text = Text("jobset.yaml", yaml_text([manifest]))
    [document] = dialects.documents(text)
    native, _ = dialects.native(document)
    native, _ = frameworks.validate(native, Options().kube_version)
    job = training_job(native.data, None, supervisor=True, converted=True)
    topology = frameworks.get(job.framework).topology(job)
    return {name: item["spec"]["template"] for name, item in workloads(built(topology)).items()}


def comparable(template, job, roles):
    """A pod template with the addresses and index variables of a job without a JobSet.

    The order of variables and volumes does not matter. In Kubernetes, a limit is the default of its
    request. mlgen gives the index to the init containers of a custom resource.
    """
    text = json.dumps(template["spec"])
    names = "|".join(map(re.escape, sorted(roles, key=len, reverse=True)))
    text = re.sub(rf"\b({job}-(?:{names}))-0-({INDEX})(?![\w-])", r"\1-\2", text)
    text = re.sub(rf"\b({job}-(?:{names})-(?:{INDEX}))-0-0(?![\w-])", r"\1", text)
    text = text.replace("apps.kubernetes.io/pod-index", "batch.kubernetes.io/job-completion-index")
    spec = json.loads(text)
    for name in ("hostname", "subdomain", "restartPolicy"):
        spec.pop(name, None)
    helpers = spec.get("initContainers", [])
    for container in helpers:
        container["env"] = [each for each in container.get("env", []) if each["name"] != INDEX_NAME]
    for container in (*spec["containers"], *helpers):
        for name in ("env", "volumeMounts"):
            container[name] = sorted(container.get(name, []), key=json.dumps)
        resources = container.get("resources", {})
        requests = {**resources.get("limits", {}), **resources.get("requests", {})}
        container["resources"] = {**resources, "requests": requests}
    if "volumes" in spec:
        spec["volumes"] = sorted(spec["volumes"], key=json.dumps)
    return spec


def test_a_jobset_has_the_same_pods_in_its_own_dialect(any_file):
    for job in rendered(any_file):
        manifest = jobset_of(job)
        name, roles = job.job.name, {role.name for role in job.topology.roles}
        expected = plain(job)
        found = converted(manifest)

        assert {f"{name}-{role}-0" for role in expected} <= set(found)
        for role, template in expected.items():
            of_jobset = found[f"{name}-{role}-0"]
            assert comparable(of_jobset, name, roles) == comparable(template, name, roles)
