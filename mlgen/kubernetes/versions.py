"""Versions of Kubernetes."""

from typing import NamedTuple


class KubeVersion(NamedTuple):
    """A minor version of Kubernetes, such as 1.34."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


SUPPORTED = tuple(KubeVersion(1, minor) for minor in range(31, 38))
"""The versions for which manifests can be rendered, oldest first."""

DEFAULT = KubeVersion(1, 34)

RELAXED_SERVICE_NAMES = KubeVersion(1, 36)
"""Since then the name of a Service may start with a digit (RelaxedServiceNameValidation)."""

MUTABLE_WHILE_SUSPENDED = KubeVersion(1, 36)
"""Since then these feature gates are on by default: MutablePodResourcesForSuspendedJobs and
MutableSchedulingDirectivesForSuspendedJobs."""


def parse(text: str) -> KubeVersion:
    """Return the version in a text such as `1.34`, `v1.34.4` or `v1.34.4+k3s1`.

    Raises:
        ValueError: manifests cannot be rendered for it; the message names the supported range.
    """
    parts = text.removeprefix("v").split(".")
    numbers = tuple(int(part) if part.isdecimal() else -1 for part in parts[:2])
    for version in SUPPORTED:
        if numbers == version:
            return version
    raise ValueError(f"{text} is not a version from {SUPPORTED[0]} to {SUPPORTED[-1]}")
