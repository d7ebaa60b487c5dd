"""Targets for whole documents with changes."""

import json
import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fuzz.checks import (
    JOB,
    TARGETS,
    Target,
    flawless,
    of_files,
    parsed,
    readable,
    require,
    run_flawless,
    same,
    target,
)
from fuzz.commands import COMMANDS, FILE, Command, as_items, run
from support import FILES, load

from mlgen.dialects import is_foreign

for _name in COMMANDS:  # each with documents of any shape
    TARGETS[_name] = Target(partial(flawless, _name))


@target()
def twice(text: str) -> None:
    """The same input leads to the same bytes."""
    require(flawless("render", text) == flawless("render", text), "renders something else")


@target()
def verified(text: str) -> None:
    """Rendered manifests pass `mlgen verify`."""
    status, out = flawless("render", text)
    if status or "mlgen.dev/job" in text:  # changed manifests
        return
    if not parsed(out):  # only parts of jobs
        return
    status, found = flawless("verify", out)
    require(not status or "[no-job]" in found, "is found wrong", found)


@target()
def converted(text: str) -> None:
    """The equivalent job file renders to the same manifests."""
    before = flawless("render", text)
    status, out = flawless("convert", text)
    if not status and not before[0] and readable(before[1]) is not None:
        after = flawless("render", out)
        require(same(parsed(before[1]), parsed(after[1])), "converted, it renders something else")


@target()
def folder(text: str) -> None:
    """After an error, no file is written. Written files are up to date."""
    shutil.rmtree("out", ignore_errors=True)
    Path("out").mkdir()
    Path(FILE).write_bytes(text.encode("utf-8", "surrogatepass"))
    written, checked = Command(("render", FILE, "-o", "out/")), ("render", FILE, "--check", "out")
    outcome = run_flawless(written)
    require(not outcome.status or not list(Path("out").iterdir()), "writes in spite of errors")
    if not outcome.status:
        again = run(*checked)
        require((again.status, again.out) == (0, ""), "is stale at once", again)


@target()
def krm_items(text: str) -> None:
    """A function of kustomize keeps all other items, and leaves no job."""
    _krm(as_items(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass"))


def _lists() -> list[str]:
    """Return ResourceLists in all YAML styles of a list."""
    texts = of_files(FILES, 12)
    blocks = [as_items(text.encode()).decode() for text in texts]
    objects = [json.dumps(load(text.partition("\n---")[0])) for text in texts]
    head = "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\n"
    flows = [f"{head}items: [{item}, {{a: b}}]\nfunctionConfig: {item}\n" for item in objects]
    item = JOB.replace("\n", "\n  ").strip()
    odd = [
        f"{head}items: &a\n- {item}\nresults: []\n",
        f"{head}items: # c\n- {{a: &b {{c: d}}}}\n- {objects[0]}",
        f"---\n{head}results: [{{message: a}}]\nitems:\n-\n  {item}\n# d\n- e: *f\n...\n",
        json.dumps(load(blocks[0])),
    ]
    return [*odd, *blocks, *flows]


@target(_lists)
def krm_text(text: str) -> None:
    """A ResourceList is edited as text."""
    _krm(text)


def _krm(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    outcome = run_flawless(COMMANDS["krm"], stdin=data)
    if outcome.status or not outcome.out:
        return
    lists = readable(text)
    if not lists:
        return
    (before,), (after,) = lists, parsed(outcome.out)
    kept = [item for item in before["items"] if not _is_job(item)]
    require(_is_within(kept, after["items"]), "an item has changed", outcome.out)
    if "functionConfig" not in before:  # an item of this name is kustomize's copy
        again = run("krm", stdin=outcome.out.encode()).out
        require(not any(map(_is_job, after["items"])), "a job is left", outcome.out)
        require("results" in after or again == outcome.out, "is not done", again)


def _is_job(item: Any) -> bool:
    """Return True if mlgen renders an item of a ResourceList."""
    annotations: Any = item
    for name in ("metadata", "annotations"):
        annotations = annotations.get(name) if isinstance(annotations, dict) else None
    local = isinstance(annotations, dict) and annotations.get("config.kubernetes.io/local-config")
    types = (item.get("apiVersion"), item.get("kind"))
    return not local and all(isinstance(name, str) for name in types) and not is_foreign(*types)


def _is_within(items: Sequence[Any], others: Sequence[Any]) -> bool:
    """Return True if the values are in a list in the same order, with or without others between."""
    rest: Iterator[Any] = iter(others)
    return all(any(same(item, other) for other in rest) for item in items)
