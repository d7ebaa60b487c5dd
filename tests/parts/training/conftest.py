"""The newest Kubernetes with its own kubelet. Other clusters of the tests are older."""

import pytest
from parts.private import private


@pytest.fixture(scope="session")
def cluster(started):
    """A private cluster; see `parts.private.Private`."""
    return started(private("1.37"))
