"""The border to the API server: its answers → values of known shape and size, or an ApiError.

An answer may come from a proxy, from a server that restarts, or from another version of Kubernetes.
Behind this module, an object has exactly the fields in SHAPES. Fields that are not used are
dropped, because a large job has thousands of pods. The names are those of
https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.34/.
"""

from __future__ import annotations

import json
import re
from email.utils import mktime_tz, parsedate_tz
from typing import Any, NamedTuple

Object = dict[str, Any]
Objects = list[Object]

MAX_BYTES = 64 << 20
"""The limit of an answer, and of a line of a watch. A page of 500 pods has a few MB."""

MAX_NUMBER = 1 << 63
MAX_WAIT = 30.0
"""The longest time in seconds for which a server may ask to wait."""

RECORD = "mlgen.dev/supervisor"
"""The annotation of a Job with the supervisor's state when it suspended or resumed the Job."""
COMPLETIONS = "mlgen.dev/completions"
"""The annotation of a Job with its original completions while they are reduced, see `rewound`."""

INDEXES: tuple[str, ...] = (
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
)
"""Labels with the pod's index in a Job or StatefulSet."""

SET = "mlgen.dev/set"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class ApiError(Exception):
    """A request failed. `code` is the HTTP status, or 0 without a valid answer.

    `retry_after` is the time in seconds for which the server asks to wait.
    """

    def __init__(self, message: str, code: int = 0, retry_after: float = 0.0) -> None:
        text = " ".join(message.split())  # an error is one line of a log
        super().__init__(f"{code}: {text}" if code else text)
        self.code, self.retry_after = code, retry_after


# Shapes


class Maybe(NamedTuple):
    """The shape of a field that is left out if it is missing. Others then have their default."""

    shape: Any


TEXTS, NEEDED, ANY = object(), object(), object()
"""The shapes of a mapping of texts, of a name, which has no default, and of any value."""

# The type of any other text or number, and its default, are those of an example.
OBJECT = {"name": NEEDED, "uid": "", "resourceVersion": "", "labels": TEXTS}
OWNERS = [{"kind": "", "uid": ""}]
CONDITIONS = [{"type": "", "status": "", "reason": "", "message": "", "lastTransitionTime": ""}]
REQUIREMENTS = Maybe([{"key": "", "operator": "", "values": Maybe([""])}])
TERM = {"matchExpressions": REQUIREMENTS, "matchFields": REQUIREMENTS}
AFFINITY = {PREFERRED: [{"weight": 0, "preference": TERM}], REQUIRED: {"nodeSelectorTerms": [TERM]}}
STATE = {
    "waiting": Maybe({"reason": "", "message": ""}),
    "running": Maybe({"startedAt": ""}),
    "terminated": Maybe(
        {"exitCode": 0, "reason": "", "message": "", "startedAt": "", "finishedAt": ""}
    ),
}
DEVICES = [{"name": "", "resources": [{"resourceID": "", "health": ""}]}]
CONTAINERS = [
    {
        "name": NEEDED,
        "image": "",
        "restartCount": 0,
        "started": False,
        "state": STATE,
        "lastState": STATE,
        "allocatedResourcesStatus": Maybe(DEVICES),
    }
]
POD = {
    "metadata": {
        "name": NEEDED,
        "uid": NEEDED,
        "creationTimestamp": "",
        "deletionTimestamp": "",
        "deletionGracePeriodSeconds": 0,
        "finalizers": [""],
        "labels": dict.fromkeys(INDEXES, Maybe("")),
        "ownerReferences": OWNERS,
    },
    "spec": {"nodeName": "", "initContainers": [{"name": "", "restartPolicy": ""}]},
    "status": {
        "phase": "",
        "reason": "",
        "message": "",
        "startTime": "",
        "hostIP": "",
        "podIP": "",
        "podIPs": [{"ip": ""}],
        "conditions": CONDITIONS,
        "initContainerStatuses": CONTAINERS,
        "containerStatuses": CONTAINERS,
    },
}
WORKLOAD = {
    "metadata": {
        **OBJECT,
        "uid": NEEDED,
        "generation": 0,
        "creationTimestamp": "",
        "deletionTimestamp": "",
        "finalizers": [""],
        "annotations": {RECORD: "", COMPLETIONS: ""},
        "ownerReferences": OWNERS,
    },
    "spec": {
        "suspend": False,
        "replicas": 1,
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": 0,
        "activeDeadlineSeconds": 0,
        "template": {
            "metadata": {"labels": {SET: ""}},
            "spec": {"affinity": {"nodeAffinity": AFFINITY}},
        },
    },
    "status": {
        "observedGeneration": 0,
        "startTime": "",
        "conditions": CONDITIONS,
        **dict.fromkeys(("active", "ready", "succeeded", "failed", "replicas", "readyReplicas"), 0),
        "completedIndexes": "",
        "uncountedTerminatedPods": {"succeeded": [""], "failed": [""]},
    },
}
LIST: Object = {"metadata": {"resourceVersion": NEEDED, "continue": ""}, "items": [ANY]}
EVENT: Object = {"type": NEEDED, "object": {"metadata": {"resourceVersion": ""}}}
SHAPES: dict[str, Object] = {
    "Pod": POD,
    "Job": WORKLOAD,
    "StatefulSet": WORKLOAD,
    "ConfigMap": {"metadata": OBJECT, "data": TEXTS},
    "Status": {"code": 0, "message": ""},
}
"""The shapes of objects by kind. Other kinds have only `metadata`."""


def shaped(kind: str, document: Any) -> Object:
    """Return the fields of an object that are used, and its kind.

    Raises:
        ApiError: a field has another type, or the document is not an object of this kind.
    """
    found = _checked(kind, document, SHAPES.get(kind, {"metadata": OBJECT}))
    if kind == "Pod":
        _trim(found)
    return {"kind": kind, **found}


def _checked(kind: str, document: Any, shape: Object) -> Object:
    """Return a document of a kind in a shape. Raises ApiError if it has another one."""
    try:
        found = _mapping(document, shape)
    except ValueError as problem:
        raise ApiError(f"unexpected answer instead of a {kind}: {problem}") from problem
    if (document or {}).get("kind", kind) != kind:
        raise ApiError(f"unexpected answer instead of a {kind}: its kind is another one")
    return found


def _trim(pod: Object) -> None:
    """Reduce what most pods do not need: keep the sidecars, and the devices that are unhealthy.

    Their health may also be Unknown, for example while a device plugin restarts (KEP-4680).
    """
    every, status = pod["spec"].pop("initContainers"), pod["status"]
    pod["spec"]["sidecars"] = [each["name"] for each in every if each["restartPolicy"] == "Always"]
    containers = [*status["initContainerStatuses"], *status["containerStatuses"]]
    kinds = [kind for each in containers for kind in each.pop("allocatedResourcesStatus", ())]
    found = [(kind["name"], device) for kind in kinds for device in kind["resources"]]
    bad = [f"{name} {each['resourceID']}" for name, each in found if each["health"] == "Unhealthy"]
    status["unhealthy"] = list(dict.fromkeys(bad))


def _shaped(value: Any, shape: Any) -> Any:  # noqa: PLR0911 - one for each shape
    """Return a value in a shape. Raises ValueError with the path of a wrong field."""
    if isinstance(shape, (str, int)):  # most fields
        return _text(value) if isinstance(shape, str) else _typed(value, shape)
    if isinstance(shape, Maybe):
        return _shaped(value, shape.shape)
    if isinstance(shape, dict):
        return _mapping(value, shape)
    if isinstance(shape, list):
        return _list(value, shape[0])
    if shape is ANY:
        return value
    if shape is TEXTS:
        return {_text(key): _text(each) for key, each in _typed(value, {}).items()}
    name = _text(value)
    if not name or name.split() != [name]:
        message = "expected a name" if name else "it is missing"
        raise ValueError(message)
    return name


def _mapping(value: Any, shape: Object) -> Object:
    known, found = _typed(value, {}), {}
    for key, each in shape.items():
        own = known.get(key)
        if own is None and isinstance(each, (str, int)):  # most fields of most objects
            found[key] = each
        elif own is not None or not isinstance(each, Maybe):
            try:
                found[key] = _shaped(own, each)
            except ValueError as problem:
                message = f"{key}: {problem}"
                raise ValueError(message) from None
    return found


def _list(value: Any, shape: Any) -> Objects:
    return [_shaped(each, shape) for each in _typed(value, [])]


def _typed(value: Any, example: Any) -> Any:
    """Return a value of the type of an example, or for null, the example."""
    if value is None:
        return example
    kind = type(example)
    if type(value) is not kind or (kind is int and abs(value) >= MAX_NUMBER):
        message = f"expected {NAMES[kind]}"
        raise ValueError(message)
    return value


NAMES = {
    str: "a text",
    int: "a whole number of 64 bits",
    bool: "true or false",
    dict: "a mapping",
    list: "a list",
}


def _text(value: Any) -> str:
    """Return a text that can be encoded: JSON may contain half of a surrogate pair."""
    text: str = _typed(value, "")
    return text if text.isascii() else text.encode(errors="replace").decode()


# Answers


class Page(NamedTuple):
    """A part of a list, and the token of the next part, or ""."""

    objects: Objects
    version: str
    next: str


class Event(NamedTuple):
    """A change that a watch reports: its type, the object, and the resource version.

    A bookmark has no object. `LISTED` has all objects.
    """

    change: str
    objects: Objects
    version: str


def json_of(answer: bytes) -> Any:
    """Return the value of a JSON text."""
    if len(answer) > MAX_BYTES:
        raise ApiError(f"the answer is larger than {MAX_BYTES} bytes")
    try:
        return json.loads(answer)
    except (ValueError, RecursionError) as problem:
        text = answer[:200].decode(errors="replace")
        raise ApiError(f"unexpected answer, no JSON: {text}") from problem


def page(kind: str, answer: bytes) -> Page:
    """Return a page of a list."""
    found = _checked(f"{kind}List", json_of(answer), LIST)
    metadata, items = found["metadata"], [shaped(kind, each) for each in found["items"]]
    return Page(items, metadata["resourceVersion"], metadata["continue"])


def event(kind: str, line: bytes) -> Event:
    """Return the event in a line of a watch.

    Raises:
        ApiError: also for an event of type ERROR, with its code.
    """
    document = json_of(line)
    found = _checked("WatchEvent", document, EVENT)
    change, version = found["type"], found["object"]["metadata"]["resourceVersion"]
    if change == "ERROR":
        status = shaped("Status", document["object"])
        raise ApiError(status["message"], status["code"])
    if change not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK") or not version:
        raise ApiError(f"unexpected event: {line[:200].decode(errors='replace')}")
    objects = [] if change == "BOOKMARK" else [shaped(kind, document["object"])]
    return Event(change, objects, version)


def message(answer: bytes) -> str:
    """Return the message of a Status, or the first 1,000 characters of other answers."""
    try:
        return str(shaped("Status", json_of(answer))["message"]) or answer[:1000].decode()
    except (ApiError, ValueError):
        return answer[:1000].decode(errors="replace")


def retry_after(header: str) -> float:
    """Return for how many seconds the server asks to wait."""
    return min(float(header), MAX_WAIT) if re.fullmatch("[0-9]{1,9}", header) else 0.0


def date(header: str) -> float | None:
    """Return the time of an answer in seconds since the epoch; None if it is invalid."""
    try:
        fields = parsedate_tz(header)
        at = float(mktime_tz(fields)) if fields else 0.0
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
    return at if 0.0 < at < LATEST else None


LATEST = 1e11
"""The upper bound of valid numbers, and of times in seconds since the epoch."""


def is_older(version: str, other: str) -> bool:
    """Return whether a resource version is older than another one.

    They are numbers that grow, of all objects together (KEP-5504). Others cannot be compared.
    """
    numbers = version.isdecimal() and other.isdecimal()
    return numbers and len(version + other) < 100 and int(version) < int(other)  # noqa: PLR2004
