"""Fixtures that convert a custom resource, written as a mapping."""

import pytest

from mlgen import dialects
from mlgen.documents.document import Document, marked
from mlgen.problems import MlgenError, Place, dotted


@pytest.fixture
def job():
    """Return the TrainingJob of a custom resource, which must have no errors."""

    def job(resource):
        document, _ = dialects.native(Document(resource, marked({(): Place("job.yaml")})))
        return document.data

    return job


@pytest.fixture
def problems():
    """Return the problems of a custom resource, including warnings."""

    def problems(resource):
        try:
            return dialects.native(Document(resource, marked({(): Place("job.yaml")})))[1]
        except MlgenError as error:
            return list(error.problems)

    return problems


@pytest.fixture
def reported(problems):
    """Return the path and message of each problem of a custom resource."""

    def reported(resource):
        return [(dotted(problem.path), problem.message) for problem in problems(resource)]

    return reported
