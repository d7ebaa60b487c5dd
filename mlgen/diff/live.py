"""What the cluster has of some objects, as far as their manifests speak of it; through kubectl."""

import json
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any

from mlgen.diff.compare import named
from mlgen.kubernetes.labels import LAST_APPLIED
from mlgen.kubernetes.merge import merged
from mlgen.problems import MlgenError, Problem

Object = dict[str, Any]

COMMAND = ("kubectl", "get", "-f", "-", "--ignore-not-found", "-o", "json")

HINT = "or compare files: mlgen diff OLD NEW"


def objects(manifests: Iterable[Mapping[str, Any]]) -> list[Object]:
    """Return those of the manifests' objects that the cluster has, whole.

    Args:
        manifests: name the objects; without a namespace they are in that of kubectl's context.

    Raises:
        MlgenError: there is no kubectl, or it fails.
    """
    asked = [_identity(item) for item in manifests]
    if not asked:
        return []
    given = json.dumps({"apiVersion": "v1", "kind": "List", "items": asked})
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command, found where the user has it
            COMMAND, input=given, capture_output=True, text=True, check=False
        )
    except OSError as error:
        message = f"kubectl cannot be run: {error.strerror}"
        raise MlgenError([Problem((), message, "kubectl", f"install it, {HINT}")]) from None
    if done.returncode:
        message = f"kubectl says: {_reason(done.stderr)}"
        raise MlgenError([Problem((), message, "kubectl", f"mend that, {HINT}")])
    found: Any = json.loads(done.stdout) if done.stdout.strip() else {"kind": "List", "items": []}
    items: list[Object] = found["items"] if found["kind"] == "List" else [found]
    return items


def _identity(item: Mapping[str, Any]) -> Object:
    """What kubectl must know to find an object; of a kind without namespaces it ignores one."""
    meta = {name: item["metadata"][name] for name in NAMES if item["metadata"].get(name)}
    return {"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": meta}


NAMES = ("name", "namespace")


def _reason(stderr: str) -> str:
    """What kubectl says in the end, on one line; before that, its client library logs retries."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    said = [line for line in lines if not line.startswith(("E0", "E1", "W0", "W1", "I0", "I1"))]
    return " ".join(said or lines or ["nothing"]).removeprefix("error: ")


def spoken_of(live: Object, new: Object) -> Object:
    """Return what of an object that was read from a cluster `kubectl apply` would look at.

    That is what the new manifest names, and what was applied last, as far as it is still there:
    what stands in the one and not in the other is taken away. An object that the server applied
    does not say what that was, so nothing is known to be taken away. An object that was not read
    from a cluster is returned as it is.
    """
    if "uid" not in live["metadata"]:
        return live
    annotations = live["metadata"].get("annotations") or {}
    try:
        last = json.loads(annotations.get(LAST_APPLIED, "{}"))
    except ValueError:
        last = {}
    shape = merged(last, new)
    found: Object = named(live, shape)
    return found
