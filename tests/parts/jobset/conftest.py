"""JobSet on a control plane, with and without Kueue, and teams that use it."""

from itertools import count

import pytest
from parts.jobset.server import MODULE, Queued, Team, start
from parts.kueue import server as kueue
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


@pytest.fixture(scope="package", params=["1.34", "1.37"])
def queued(request):
    """A control plane with JobSet and Kueue."""
    for each in ("jobset", "kueue", "kwok"):
        available(part, each)
    available(kubernetes, request.param)
    available(module, MODULE)
    available(module, kueue.MODULE)
    with plane(request.param) as created:
        start(created, nodes=False)
        frameworks = ["batch/job", "pod", "statefulset", "jobset.x-k8s.io/jobset"]
        kueue.start(created, webhooks=True, integrations={"frameworks": frameworks})
        yield created


@pytest.fixture
def queue(queued):
    """Function that returns a new team with a quota, such as `{"cpu": 4}`."""
    found = []

    def team(quota, **fields):
        found.append(Queued(queued, next(names), quota, **fields))
        return found[-1]

    yield team
    for each in found:
        each.clear()


@pytest.fixture
def team(served):
    """A namespace, whose jobs are ended afterwards."""
    created = Team(served, next(names))
    yield created
    created.clear()
