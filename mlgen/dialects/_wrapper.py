"""AppWrapper: objects that Kueue admits together, and that a controller deletes and creates again.

Each object in it becomes a document of its own. Source: project-codeflare/appwrapper 1.1,
api/v1beta2 and internal/controller/appwrapper.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mlgen.dialects._schemas import read, resource_schema
from mlgen.documents.document import Document
from mlgen.jobfile.validation import require_valid
from mlgen.kubernetes.names import KUEUE_QUEUE
from mlgen.kubernetes.objects import without_nulls
from mlgen.problems import MlgenError, Problem, ValuePath

FACTS = read("appwrapper.json")


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
    metadata = {**component.get("metadata", {})}
    if "namespace" in wrapper:
        metadata = {"namespace": wrapper["namespace"]} | metadata
    queue = wrapper.get("labels", {}).get(KUEUE_QUEUE)
    if queue and component.get("kind") not in FACTS["without queue"]:
        metadata["labels"] = {KUEUE_QUEUE: queue} | metadata.get("labels", {})
    return {**component, "metadata": metadata}


def _differences(wrapper: dict[str, Any], components: list[dict[str, Any]]) -> Iterator[Problem]:
    """Yield the parts of an AppWrapper that have no effect on the rendered objects."""
    metadata, spec = wrapper["metadata"], wrapper["spec"]
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
    if manager not in (None, FACTS["controller"]):
        yield _differs(
            ("spec", "managedBy"),
            f"{manager} manages the AppWrapper, so its controller does not run it; mlgen renders "
            "the objects in it",
            "remove managedBy",
        )
    for name in annotations:
        hint = FACTS["annotations"].get(name.removeprefix(FACTS["prefix"]))
        if name.startswith(FACTS["prefix"]):
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
