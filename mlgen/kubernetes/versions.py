"""The supported versions of Kubernetes, and the objects of its API in each of them.

`schemas/kubernetes/api.json` contains the pod template and the kinds that mlgen renders, as a
mapping of definitions (`PodSpec`), each with:

- `fields`: the type of each field. `[T]` is a list, `{T}` a mapping with any keys, and a
  capitalized name is another definition. Scalars are `string`, `boolean`, `int32`, `int64`,
  `quantity`, `int-or-string`, `time` and `bytes`. `any` is a value of any type.
- `required`: the fields without which the API server rejects an object.
- `since`, `until`: the first and the last version with a field, unless all supported ones have it.

`.ci/kubernetes-schemas` writes that file.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from mlgen.resources import table


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


class Definition(NamedTuple):
    """An object in one version.

    Attributes:
        fields: the type of each field.
        required: the fields without which the API server rejects the object.
        later: fields of later versions, with the first version that has them.
        earlier: fields of earlier versions, with the last version that has them.
    """

    fields: Mapping[str, str]
    required: tuple[str, ...]
    later: Mapping[str, KubeVersion]
    earlier: Mapping[str, KubeVersion]


def names() -> list[str]:
    """Return the names of all definitions, sorted."""
    return list(table("kubernetes/api"))


@cache
def definition(name: str, version: KubeVersion | None = DEFAULT) -> Definition:
    """Return a definition in a version, or for None, with the fields of all versions.

    Raises:
        KeyError: there is no definition with this name.
    """
    data = table("kubernetes/api")[name]
    fields, later, earlier = {**data["fields"]}, dict[str, KubeVersion](), dict[str, KubeVersion]()
    for field, text in data.get("since", {}).items():
        if version and version < parse(text):
            later[field] = parse(text)
            del fields[field]
    for field, text in data.get("until", {}).items():
        if version and version > parse(text):
            earlier[field] = parse(text)
            del fields[field]
    return Definition(fields, tuple(data.get("required", ())), later, earlier)


def is_definition(kind: str) -> bool:
    """Return whether a type is the name of a definition."""
    return kind[0].isupper()


def element(kind: str) -> str:
    """Return the element type of a list or mapping, or the type itself: [[T]] → T."""
    return kind.strip("[]{}")
