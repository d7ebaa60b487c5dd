"""JobSet on a control plane, and a team that uses it."""

from itertools import count

import pytest
from parts.jobset.server import MODULE, Team, start
from parts.plane import plane
from parts.programs import kubernetes, module, part
from parts.skips import available

names = (f"jobs-{index}" for index in count())


@pytest.fixture(scope="package", params=["1.34", "1.37"])
def served(request):
    """A control plane with JobSet."""
    for each in ("jobset", "kwok"):
        available(part, each)
    available(kubernetes, request.param)
    available(module, MODULE)
    with plane(request.param) as created:
        start(created)
        yield created


@pytest.fixture
def team(served):
    """A namespace, whose jobs are ended afterwards."""
    created = Team(served, next(names))
    yield created
    created.clear()
