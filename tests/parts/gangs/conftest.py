"""The cluster of each gang scheduler, which is cleaned after each test."""

from contextlib import ExitStack

import pytest
from parts.gangs.cluster import VERSIONS, cluster
from parts.skips import available


@pytest.fixture(scope="module", params=VERSIONS)
def running(request):
    """A Cluster for all tests of a module."""
    with ExitStack() as stack:
        yield available(stack.enter_context, cluster(request.param))


@pytest.fixture
def gangs(running):
    """A Cluster without jobs."""
    yield running
    running.clean()
