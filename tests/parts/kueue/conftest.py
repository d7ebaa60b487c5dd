"""Kueue beside a control plane, with its webhooks and without; and teams that use it."""

from itertools import count

import pytest
from parts.kueue.server import start
from parts.kueue.tenant import Tenant
from parts.plane import plane
from parts.programs import MissingError, kubernetes, module, part


def pytest_collection_modifyitems(items):
    for item in items:
        if "parts/kueue" in item.path.as_posix():
            item.add_marker(pytest.mark.long)


def served(version, *, webhooks):
    """Yield a control plane with Kueue."""
    try:
        part("kueue")
        part("kwok")
        kubernetes(version)
        module("sigs.k8s.io/kueue@v0.19.2")
    except MissingError as missing:
        pytest.skip(str(missing))
    with plane(version) as created:
        start(created, webhooks=webhooks)
        yield created


@pytest.fixture(scope="package", params=["1.34", "1.37"])
def with_webhooks(request):
    """Kueue as it is installed, on each version of Kubernetes."""
    yield from served(request.param, webhooks=True)


@pytest.fixture(scope="package", params=[True, False], ids=["webhooks", "plain"])
def with_or_without(request):
    """Kueue as it is installed, and if the API server calls none of its webhooks.

    Without them, only Jobs with its label are queued.
    """
    yield from served("1.34", webhooks=request.param)


names = (f"team-{index}" for index in count())


def tenants(created):
    """Yield a function that returns a new Tenant with a quota, and end all jobs afterwards."""
    found = []

    def tenant(quota, **fields):
        found.append(Tenant(created, next(names), quota, **fields))
        return found[-1]

    yield tenant
    for each in found:
        each.clear()


@pytest.fixture
def team(with_webhooks):
    """Function that returns a new Tenant with a quota, such as `{"cpu": 4}`."""
    yield from tenants(with_webhooks)


@pytest.fixture
def any_team(with_or_without):
    """As `team`, with webhooks and without."""
    yield from tenants(with_or_without)
