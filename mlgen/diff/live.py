"""Manifests → the objects of the same names in the cluster, read with kubectl."""

import json
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any

from mlgen.diff.compare import select
from mlgen.kubernetes.labels import LAST_APPLIED
from mlgen.kubernetes.merge import merged
from mlgen.problems import MlgenError, Problem

Object = dict[str, Any]

COMMAND = ("kubectl", "get", "-f", "-", "--ignore-not-found", "-o", "json")

ALTERNATIVE = "or compare files: mlgen diff OLD NEW"

LOG_PREFIXES = ("E0", "E1", "W0", "W1", "I0", "I1")
"""How klog lines begin: the severity and the month."""


def fetch(manifests: Iterable[Mapping[str, Any]]) -> list[Object]:
    """Return the objects of some manifests as they are in the cluster; missing ones are left out.

    Args:
        manifests: name the objects. The default namespace is that of kubectl's context.

    Raises:
        MlgenError: kubectl is missing or fails.
    """
    identities = [_identity(item) for item in manifests]
    if not identities:
        return []
    request = json.dumps({"apiVersion": "v1", "kind": "List", "items": identities})
    try:
        process = subprocess.run(  # noqa: S603 - a fixed command, from the user's PATH
            COMMAND, input=request, capture_output=True, text=True, check=False
        )
    except OSError as error:
        message = f"kubectl cannot be run: {error.strerror}"
        raise MlgenError(
            [Problem((), message, "kubectl", f"install kubectl, {ALTERNATIVE}")]
        ) from None
    if process.returncode:
        message = f"kubectl failed: {_error_message(process.stderr)}"
        raise MlgenError([Problem((), message, "kubectl", f"fix the cause, {ALTERNATIVE}")])
    if not process.stdout.strip():
        return []
    response: Any = json.loads(process.stdout)
    objects: list[Object] = response["items"] if response["kind"] == "List" else [response]
    return objects


def _identity(item: Mapping[str, Any]) -> Object:
    """Return the fields by which kubectl finds an object.

    kubectl ignores the namespace of an object whose kind has none.
    """
    names = ("name", "namespace")
    metadata = {name: item["metadata"][name] for name in names if item["metadata"].get(name)}
    return {"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": metadata}


def _error_message(stderr: str) -> str:
    """Return kubectl's error on one line, without the retries that its client library logs."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if not line.startswith(LOG_PREFIXES)]
    return " ".join(errors or lines or ["no error message"]).removeprefix("error: ")


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
    except ValueError:
        last_applied = {}
    fields: Object = select(live, merged(last_applied, new))
    return fields
