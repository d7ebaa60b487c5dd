"""The supported versions of Kubernetes, and the versions that introduced features."""

import re
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

RESTART_ALL_CONTAINERS = KubeVersion(1, 36)
"""Since then, RestartAllContainersOnContainerExits is enabled by default."""

POD_GROUPS = KubeVersion(1, 37)
"""Since then, scheduling.k8s.io/v1beta1 contains PodGroup, with the feature gate GenericWorkload.
Earlier versions (v1alpha1 and v1alpha2) had other fields."""


TEXT = r"v?([0-9]+)\.([0-9]+)\+?(?:[.+-].*)?"
"""A version written by users or reported by clusters: `v1.33.5+k3s1`, `1.33-gke.100`, `1.33+`.

Distributions append their own version (https://semver.org, pre-release and build). Some add a `+`
to the minor version in the API server's /version.
"""


def parse(text: str) -> KubeVersion:
    """Return the minor version in a text such as `1.34`, `v1.34.4` or `v1.34.4+k3s1`.

    Raises:
        ValueError: the version is not supported. The message lists the supported versions.
    """
    version, _ = nearest(text)
    if version != _number(text):
        raise ValueError(_expected(text))
    return version


def nearest(text: str) -> tuple[KubeVersion, str]:
    """Return the minor version in a text, or the newest supported version if the text is newer.

    Returns:
        The version, and "" or a message about a version that is too new.

    Raises:
        ValueError: the text is not a version, or the version is too old.
    """
    number = _number(text)
    if number in SUPPORTED:
        return number, ""
    if number > SUPPORTED[-1]:
        return SUPPORTED[-1], _expected(text)
    raise ValueError(_expected(text))


def _number(text: str) -> KubeVersion:
    """Return the version in a text, even if unsupported; 0.0 if there is none."""
    match = re.fullmatch(TEXT, text)
    return KubeVersion(int(match[1]), int(match[2])) if match else KubeVersion(0, 0)


def _expected(text: str) -> str:
    return f'expected a version from {SUPPORTED[0]} to {SUPPORTED[-1]}, got "{text}"'
