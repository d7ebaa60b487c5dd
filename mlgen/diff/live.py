"""Manifests → the objects of the same names in the cluster, read with kubectl."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from mlgen.diff.compare import select
from mlgen.kubernetes.labels import LAST_APPLIED
from mlgen.kubernetes.merge import merged
from mlgen.kubernetes.objects import Object
from mlgen.live.kubectl import Kubectl, KubectlError, identity, listed
from mlgen.problems import MlgenError

ALTERNATIVE = "or compare files: mlgen diff OLD NEW"


def fetch(manifests: Iterable[Mapping[str, Any]]) -> list[Object]:
    """Return the objects of some manifests as they are in the cluster; missing ones are left out.

    Args:
        manifests: name the objects. The default namespace is that of kubectl's context.

    Raises:
        MlgenError: kubectl is missing or fails.
    """
    identities = [identity(item) for item in manifests]
    if not identities:
        return []
    try:
        words = ("get", "-f", "-", "--ignore-not-found")
        return Kubectl().objects(*words, stdin=listed(identities))
    except KubectlError as error:
        (problem,) = error.problems
        hint = f"{problem.hint}, {ALTERNATIVE}"
        raise MlgenError([replace(problem, hint=hint)]) from None


def three_way_fields(live: Object, new: Object) -> Object:
    """Return the fields of a live object that kubectl's three-way merge considers.

    These are the fields of the new manifest, and those of the manifest that was applied last,
    which are removed unless the new one has them. A server-side apply does not store that manifest,
    so no removals are seen. An object that was not read from a cluster is returned unchanged.
    """
    if "uid" not in live["metadata"]:
        return live
    annotations = live["metadata"].get("annotations") or {}
    try:
        last_applied = json.loads(annotations.get(LAST_APPLIED, "{}"))
    except (RecursionError, ValueError):
        last_applied = {}
    fields: Object = select(live, merged(last_applied, new))
    return fields
