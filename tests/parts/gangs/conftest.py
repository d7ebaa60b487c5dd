"""The cluster of each gang scheduler, which a test leaves as it was."""

from contextlib import ExitStack

import pytest
from parts.gangs.cluster import VERSIONS, cluster
from parts.programs import MissingError


@pytest.fixture(scope="module", params=VERSIONS)
def running(request):
    """A Cluster for all tests of a module."""
    with ExitStack() as stack:
        try:
            created = stack.enter_context(cluster(request.param))
        except MissingError as missing:
            pytest.skip(str(missing))
        yield created


@pytest.fixture
def gangs(running):
    """A Cluster without jobs."""
    yield running
    running.clean()
