"""Kueue on a control plane, with and without its webhooks, and teams that use it."""

from itertools import count

import pytest
from parts.kueue.server import start
from parts.kueue.tenant import Tenant
from parts.plane import plane
from parts.programs import kubernetes, module, part
from parts.skips import available


def served(version, *, webhooks):
    """Yield a control plane with Kueue."""
    available(part, "kueue")
    available(part, "kwok")
    available(kubernetes, version)
    available(module, "sigs.k8s.io/kueue@v0.19.2")
    with plane(version) as created:
        start(created, webhooks=webhooks)
        yield created


@pytest.fixture(scope="package", params=["1.34", "1.37"])
def with_webhooks(request):
    """Kueue as installed, on each version of Kubernetes."""
    yield from served(request.param, webhooks=True)


@pytest.fixture(scope="package", params=[True, False], ids=["webhooks", "plain"])
def with_or_without(request):
    """Kueue as installed, and Kueue without its webhooks.

    Without webhooks, only Jobs with Kueue's label are queued.
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
    """Like `team`, with and without webhooks."""
    yield from tenants(with_or_without)
