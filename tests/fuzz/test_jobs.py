"""Random job files that match the schema render to valid manifests or are rejected."""

import json

import pytest
import yaml
from fuzz.jobs import job

from mlgen import Options, frameworks, pipeline
from mlgen.checks.verify import rejected_fields
from mlgen.documents.files import Text
from mlgen.output.manifests import text as manifests_text
from mlgen.problems import MlgenError

JOBS = 12


def rendered(framework, seed):
    """Return the manifests and the problems of a job; one of them is empty."""
    text = Text("job.json", json.dumps(job(framework, seed)))
    try:
        return manifests_text(pipeline.render([text], Options()).jobs, "yaml"), ()
    except MlgenError as error:
        return "", error.problems


@pytest.mark.parametrize("seed", range(JOBS))
@pytest.mark.parametrize("framework", frameworks.names())
def test_a_random_job_is_rendered_or_rejected_with_problems(framework, seed):
    manifests, problems = rendered(framework, seed)

    assert bool(manifests) != bool(problems)
    assert all(str(problem.place).startswith("job.json:1:") for problem in problems)
    assert [] == list(rejected_fields(yaml.safe_load_all(manifests), (1, 34)))


def test_enough_random_jobs_are_rendered():
    """Otherwise, the test above would be weak."""
    manifests = [rendered(name, seed)[0] for name in frameworks.names() for seed in range(JOBS)]

    assert len(list(filter(None, manifests))) > len(manifests) / 10
