"""The supported versions of Kubernetes, and those in which a feature was added."""

from typing import NamedTuple


class KubeVersion(NamedTuple):
    """A minor version of Kubernetes, such as 1.34."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


SUPPORTED = tuple(KubeVersion(1, minor) for minor in range(31, 38))
"""The versions that manifests can be rendered for, oldest first."""

DEFAULT = KubeVersion(1, 34)
"""The version that manifests are rendered for by default."""

RELAXED_SERVICE_NAMES = KubeVersion(1, 36)
"""Since then, the name of a Service may start with a digit (RelaxedServiceNameValidation)."""

MUTABLE_WHILE_SUSPENDED = KubeVersion(1, 36)
"""Since then, MutablePodResourcesForSuspendedJobs and
MutableSchedulingDirectivesForSuspendedJobs are enabled by default."""


def parse(text: str) -> KubeVersion:
    """Return the minor version in a text such as `1.34`, `v1.34.4` or `v1.34.4+k3s1`.

    Raises:
        ValueError: the version is not supported; the message says which versions are.
    """
    parts = text.removeprefix("v").split(".")
    numbers = tuple(int(part) if part.isdecimal() else -1 for part in parts[:2])
    for version in SUPPORTED:
        if numbers == version:
            return version
    raise ValueError(f'expected a version from {SUPPORTED[0]} to {SUPPORTED[-1]}, got "{text}"')
