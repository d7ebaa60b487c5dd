"""Real programs of other projects, started for these tests and ended after them.

`pytest -m parts -n 2 --dist loadgroup tests/parts` runs the quick tests: they need kubernetes-1.37
and kubelet-1.37. MLGEN_PARTS=all adds tests that take minutes or need other builds. A test without
its program skips with one line.
"""

import os
from contextlib import ExitStack

import pytest
from parts import programs
from parts.plane import plane
from parts.private import private
from parts.skips import available


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in the same hook
def pytest_collection_modifyitems(items):
    """Group the tests by what they start, so that each is started once, in one process."""
    for item in items:
        if "tests/parts" in item.path.as_posix():
            item.add_marker(pytest.mark.parts)
            parameters = item.callspec.params if hasattr(item, "callspec") else {}
            group = parameters.get("control_plane", item.path.parent.name)
            item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def part():
    """Function that returns the path of a program that `../shared/parts/build` makes."""
    return lambda *names: available(programs.part, *names)


@pytest.fixture(scope="session")
def module():
    """Function that returns the folder of a Go module."""
    return lambda name: available(programs.module, name)


@pytest.fixture(scope="session")
def started():
    """Function that enters a context until the end of the tests. It skips as `available` does."""
    with ExitStack() as stack:
        yield lambda context: available(stack.enter_context, context)


@pytest.fixture(scope="session")
def environment(started):
    """Variables with which kubectl reaches the cluster of KUBECONFIG, or a private one."""
    return dict(os.environ) if "KUBECONFIG" in os.environ else started(private()).environment


@pytest.fixture(scope="session", params=[*programs.KUBERNETES])
def control_plane(request):
    """A control plane of each version of Kubernetes, without nodes; see `parts.plane.Plane`."""
    available(programs.kubernetes, request.param)
    with plane(request.param) as created:
        created.version = request.param
        yield created
