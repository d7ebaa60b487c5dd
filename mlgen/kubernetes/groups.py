"""The API group of an object, and the groups that are built into Kubernetes.

`schemas/kubernetes/groups.json` contains the groups of
https://github.com/kubernetes/kubernetes/tree/v1.37.0/staging/src/k8s.io/api, and the groups of the
kinds CustomResourceDefinition and APIService. The suffix of a group does not show whether it is
built in: `snapshot.storage.k8s.io` and `jobset.x-k8s.io` belong to CustomResourceDefinitions.
"""

from collections.abc import Mapping
from typing import Any

from mlgen.resources import table


def group_of(api_version: str) -> str:
    """Return the group of an apiVersion: "batch" for `batch/v1`, "" for `v1`."""
    return api_version.rpartition("/")[0]


def group_kind(item: Mapping[str, Any]) -> tuple[str, str]:
    """Return the API group and the kind of an object."""
    return group_of(str(item.get("apiVersion"))), str(item.get("kind"))


def is_built_in(api_version: str) -> bool:
    """Return whether an API is part of Kubernetes, not of a CustomResourceDefinition."""
    return group_of(api_version) in table("kubernetes/groups")
