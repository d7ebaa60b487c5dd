"""Objects that contain others: an AppWrapper, and a List in kubectl's format.

Each object in them becomes a document of its own. Kueue admits the objects of an AppWrapper
together, and a controller deletes and creates them again. Source: project-codeflare/appwrapper 1.1,
api/v1beta2 and internal/controller/appwrapper.

A List is split as a text, without reading it as a whole. An item that is not valid YAML is then a
problem of its own, as in a file with several documents, and all limits apply to each item.
"""

import re
from collections.abc import Container, Iterator
from dataclasses import replace
from typing import Any

from mlgen.dialects._schemas import read, resource_schema
from mlgen.documents.document import Document
from mlgen.documents.files import Text
from mlgen.documents.reader import read_document
from mlgen.jobfile.validation import require_valid
from mlgen.kubernetes.names import KUEUE_QUEUE
from mlgen.kubernetes.objects import without_nulls
from mlgen.problems import MlgenError, Problem, ValuePath


def unwrapped(document: Document, *key: str) -> Iterator[Document | list[Problem]]:
    """Yield the objects in an AppWrapper, after its problems.

    Args:
        document: the AppWrapper.
        key: its apiVersion and kind.
    """
    document = replace(document, data=without_nulls(document.data))
    try:
        require_valid(document, resource_schema("appwrapper", *key))
    except MlgenError as error:
        yield list(error.problems)
        return
    components = document.data["spec"]["components"]
    problems = [document.located(each) for each in _differences(document.data, components)]
    if problems:
        yield problems
    for number in range(len(components)):
        component = document.item("spec", "components", number, "template")
        yield replace(component, data=_inherited(document.data["metadata"], component.data))


def _inherited(wrapper: dict[str, Any], component: dict[str, Any]) -> dict[str, Any]:
    """Return an object with the namespace of its wrapper, and a job also with the queue."""
    facts, metadata = read("appwrapper.json"), {**component.get("metadata", {})}
    if "namespace" in wrapper:
        metadata = {"namespace": wrapper["namespace"]} | metadata
    queue = wrapper.get("labels", {}).get(KUEUE_QUEUE)
    if queue and component.get("kind") not in facts["without queue"]:
        metadata["labels"] = {KUEUE_QUEUE: queue} | metadata.get("labels", {})
    return {**component, "metadata": metadata}


def _differences(wrapper: dict[str, Any], components: list[dict[str, Any]]) -> Iterator[Problem]:
    """Yield the parts of an AppWrapper that have no effect on the rendered objects."""
    facts, metadata, spec = read("appwrapper.json"), wrapper["metadata"], wrapper["spec"]
    labels, annotations = metadata.get("labels", {}), metadata.get("annotations", {})
    if KUEUE_QUEUE in labels and len(components) > 1:
        yield _differs(
            ("metadata", "labels", KUEUE_QUEUE),
            "Kueue admits the objects of an AppWrapper together; mlgen gives the queue to each "
            "job, and Kueue admits them one by one",
            "put the roles into one job",
        )
    elif spec.get("suspend") and KUEUE_QUEUE not in labels:
        message = "the objects in the AppWrapper are not suspended"
        yield _differs(("spec", "suspend"), message, "set suspend in each of its jobs")
    manager = spec.get("managedBy")
    if manager not in (None, facts["controller"]):
        yield _differs(
            ("spec", "managedBy"),
            f"{manager} manages the AppWrapper, so its controller does not run it; mlgen renders "
            "the objects in it",
            "remove managedBy",
        )
    for name in annotations:
        hint = facts["annotations"].get(name.removeprefix(facts["prefix"]))
        if name.startswith(facts["prefix"]):
            yield _differs(
                ("metadata", "annotations", name),
                "this annotation has no effect, because no controller watches, retries or deletes "
                "the objects together",
                hint or "remove it",
            )
    for number, component in enumerate(components):
        if component.get("podSetInfos"):
            path = ("spec", "components", number, "podSetInfos")
            message = "podSetInfos are not added to the pods"
            yield _differs(path, message, "set them in the pod template")


def _differs(path: ValuePath, message: str, hint: str) -> Problem:
    """Return a warning about a part of an AppWrapper."""
    return Problem(path, message, "differs", hint, warning=True)


ITEMS = "\nitems:\n"
"""The field `items`, before its first item."""

END = re.compile(r"^(?![-\s#])", re.MULTILINE)
"""The start of the field after the items."""

DASH = re.compile(r"^-", re.MULTILINE)

ALIAS = re.compile(r"[\[{,:-]\s*\*[\w-]")
"""A possible alias, such as `- *a`, of a value in another item."""

TYPE = r"^  %s: [\"']?([^\s\"']+)[\"']?$"
VERSION, KIND = (re.compile(TYPE % name, re.MULTILINE) for name in ("apiVersion", "kind"))


def list_items(text: Text, kinds: Container[tuple[str, str]]) -> Iterator[Text] | None:
    """Return the items of a List in kubectl's format; None for any other text.

    Args:
        text: one document.
        kinds: apiVersions and kinds. The List must contain at least one such object.
    """
    field = text.text.find(ITEMS)
    start = field + len(ITEMS)
    if field < 0 or not text.text.startswith("- ", start):
        return None
    if "\r" in text.text or ALIAS.search(text.text):
        return None
    end = END.search(text.text, start)
    stop = end.start() if end else len(text.text)
    others = read_document(text.name, text.line, text.text[: field + 1] + text.text[stop:])
    if not isinstance(others, Document) or others.problems or not _is_list(others.data):
        return None
    if not any(_type(item) in kinds for item in _items(text, start, stop)):
        return None
    return _items(text, start, stop)


def _is_list(data: object) -> bool:
    """Return True for the fields of a List other than its items."""
    if not isinstance(data, dict) or data.keys() - {"apiVersion", "kind", "metadata"}:
        return False
    return (data.get("apiVersion"), data.get("kind")) == ("v1", "List")


def _items(text: Text, start: int, stop: int) -> Iterator[Text]:
    """Yield the items between two positions, with their original lines and columns."""
    line = text.line + text.text.count("\n", 0, start)
    while start < stop:
        following = DASH.search(text.text, start + 1, stop)
        end = following.start() if following else stop
        item = f" {text.text[start + 1 : end]}"
        yield replace(text, text=item, line=line, item=True)
        line += item.count("\n")
        start = end


def _type(item: Text) -> tuple[str, str]:
    """Return the apiVersion and the kind of an item, "" for those not in kubectl's format."""
    version, kind = VERSION.search(item.text), KIND.search(item.text)
    return (version[1] if version else "", kind[1] if kind else "")
