"""Random job files that match the schema render to valid manifests or are rejected."""

import json
from functools import cache

import pytest
from fuzz.jobs import job
from support import load_all, manifests_text

from mlgen import Options, frameworks, pipeline
from mlgen.checks.verify import rejected_fields
from mlgen.documents.files import Text
from mlgen.problems import MlgenError

JOBS = 6


@cache
def rendered(framework, seed):
    """Return the manifests and the problems of a job; one of them is empty."""
    text = Text("job.json", json.dumps(job(framework, seed)))
    try:
        return manifests_text(pipeline.render([text], Options()).jobs, "yaml"), ()
    except MlgenError as error:
        return "", error.problems


@pytest.mark.parametrize("framework", frameworks.names())
def test_a_random_job_is_rendered_or_rejected_with_problems(framework):
    for seed in range(JOBS):
        manifests, problems = rendered(framework, seed)

        assert bool(manifests) != bool(problems), seed
        assert all(str(problem.place).startswith("job.json:1:") for problem in problems), seed
        assert [] == list(rejected_fields(load_all(manifests), (1, 34))), seed


def test_enough_random_jobs_are_rendered():
    """Otherwise, the test above would be weak."""
    manifests = [rendered(name, seed)[0] for name in frameworks.names() for seed in range(JOBS)]

    assert len(list(filter(None, manifests))) > len(manifests) / 10
