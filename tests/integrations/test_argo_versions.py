"""mlgen's output for Argo Workflows contains no field that a newer version has removed.

Sources: https://argo-workflows.readthedocs.io/en/latest/upgrading/ (to 3.7, to 4.0) and
https://argo-workflows.readthedocs.io/en/release-3.7/deprecations/.
"""

import re

import pytest
from support import ROOT, load, load_all

from mlgen.documents.files import texts
from mlgen.integrations.argo import Form, argo
from mlgen.result import Options

REMOVED = {"mutex", "podPriority", "priority", "schedule", "semaphore"}
"""Fields of a Workflow, a template, a synchronization and a CronWorkflow."""

FILES = [path for path in (ROOT / "argo").glob("*.yaml") if path.stem != "kustomization"]
JOBS = ("tensorflow-ps", "matrix/pytorch")


def rendered(job, schedule=None):
    """Return the output of `mlgen argo` for a fixture, with every option."""
    form = Form(schedule, backoff_seconds=30, parallelism=2, fail_fast=True)
    path = ROOT / "fixtures" / f"{job}.yaml"
    parts, _ = argo(texts((str(path),)), Options(workflow=True), form)
    return "".join(parts)


@pytest.fixture(scope="module")
def printed():
    """The objects in `argo/`, and the output of `mlgen argo` for jobs with and without a matrix."""
    own = [path.read_text() for path in FILES]
    return own + [rendered(job, schedule) for job in JOBS for schedule in (None, "0 2 * * 6")]


def fields(item):
    """Yield the names of all fields in an object, and below them."""
    if isinstance(item, dict):
        yield from item
    for value in item.values() if isinstance(item, dict) else item:
        if isinstance(value, (dict, list)):
            yield from fields(value)


def test_no_field_has_been_removed(printed):
    items = [item for text in printed for item in load_all(text)]
    objects = [item for item in items if "argoproj" in item["apiVersion"]]

    assert len(objects) >= len(printed) - 1
    assert not REMOVED & set(fields(objects))


def test_removed_fields_would_be_found():
    text = "spec: {templates: [{synchronization: {mutex: {name: a}}}]}"

    assert REMOVED & set(fields(load(text))) == {"mutex"}


def test_no_step_needs_the_output_of_one_that_may_be_skipped(printed):
    """Newer controllers fail a step with such a reference, unless it has a default."""
    assert not re.findall(r"\{\{[^}]*\.outputs\.[^}]*}}", "".join(printed))
