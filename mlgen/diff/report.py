"""Paired objects → the report that `mlgen diff` prints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mlgen.diff import commands, text
from mlgen.diff.compare import changes
from mlgen.diff.effects import effects, readers
from mlgen.diff.live import three_way_fields
from mlgen.diff.pairing import JobKey, Pairing, job_key, job_name, mapping_at
from mlgen.diff.rejections import Rejection, rejections
from mlgen.kubernetes.changes import Change
from mlgen.kubernetes.groups import group_kind
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.updates import Update
from mlgen.kubernetes.versions import KubeVersion
from mlgen.objects.labels import INSTANCE, JOB, MATRIX, PART_OF
from mlgen.objects.supervisor import PLAN
from mlgen.variants.gitops import TOOLS

CLAIM = ("", "PersistentVolumeClaim")

PROGRAM = "data: the supervisor's program, from another version of mlgen"

Verdict = Literal["new", "changed", "uncertain", "rejected", "removed", "taken"]

COUNTED: Mapping[Verdict, str] = {
    "new": "new",
    "changed": "changed",
    "uncertain": "may be rejected",
    "removed": "no longer rendered",
}
"""How the summary counts objects if none is certain to be rejected."""


@dataclass(frozen=True)
class Entry:
    """A part of the report: an object that differs, or a job that is created or removed.

    Attributes:
        objects: the object, or those of the job.
        verdict: what `kubectl apply` does with them; `uncertain` if it may be rejected, `taken` if
            the object in the cluster is not the job's.
        lines: the text, the heading first.
    """

    objects: tuple[Object, ...]
    verdict: Verdict
    lines: tuple[str, ...]


def report(pairing: Pairing, kube_version: KubeVersion) -> str:
    """Return all differences and their effects, with a summary last; "" if there are none."""
    entries = _entries(pairing, kube_version)
    if not entries:
        return ""
    return "".join(["\n  ".join(entry.lines) + "\n" for entry in entries] + [_summary(entries)])


def _entries(pairing: Pairing, kube_version: KubeVersion) -> list[Entry]:
    """Return an entry for each object that differs; one for all objects of a new or removed job."""
    entries: list[Entry] = []
    for old, new in pairing.pairs:
        if old is not None:
            entry = _updated(old, new, pairing.updated, kube_version)
            entries += [entry] if entry else []
        elif job_key(new) not in pairing.new_jobs:
            entries.append(Entry((new,), "new", (f"{_title(new)}: new",)))
        elif pairing.new_jobs[job_key(new)][0] is new:
            entries.append(_new_job(pairing.new_jobs[job_key(new)], pairing.removed_jobs))
    for old in pairing.removed:
        if job_key(old) not in pairing.removed_jobs:
            entries.append(_removed(old))
        elif pairing.removed_jobs[job_key(old)][0] is old:
            entries.append(_removed_job(pairing.removed_jobs[job_key(old)]))
    return entries


def _updated(
    old: Object, new: Object, updated: Sequence[Object], kube_version: KubeVersion
) -> Entry | None:
    """Return the entry of an object that exists already; None if nothing changes.

    Args:
        old: the object as it is.
        new: the object as it will be.
        updated: all objects that exist already; some may read a ConfigMap that changes.
        kube_version: of the cluster.
    """
    fields = three_way_fields(old, new)
    if _is_same(fields, new):
        return None
    differences = changes(fields, new)
    if not differences:
        return None
    update = Update(old, fields, new, tuple(differences), kube_version)
    rejected = rejections(update)
    secret = str(new["kind"]).removesuffix("List") == "Secret"
    shown = [change for change in differences if not _is_program(new, change)]
    lines = [line for change in shown for line in text.lines(change, secret=secret)]
    if shown != differences:
        lines.append(PROGRAM)
    if owner := _stranger(old, new):
        return Entry((new,), "taken", (f"{_title(new)}: belongs to {owner}", *lines))
    certain = [rejection for rejection in rejected if not rejection.unless]
    if certain:
        heading = f"{_title(new)}: will be rejected by the API server: {_reasons(certain)}"
        return Entry((new,), "rejected", (heading, *lines, _hint(new, certain)))
    status = "changed"
    if rejected:
        status = f"may be rejected by the API server: {_reasons(rejected)}"
    heading = "; ".join([f"{_title(new)}: {status}", *effects(update)])
    lines += readers(update, updated)
    return Entry((new,), "uncertain" if rejected else "changed", (heading, *lines))


def _stranger(old: Object, new: Object) -> str:
    """Return whose an object is that has the name of a job's; "" if it is the job's own.

    The role `b-c` of a job `a` has the names of the role `c` of a job `a-b`.
    """
    before, after = (mapping_at(item["metadata"], "labels") for item in (old, new))
    if JOB in before:
        owner = str(before[JOB])
        return "" if owner in (after.get(JOB), after.get(INSTANCE)) else f"the job {owner}"
    return "no job of mlgen" if JOB in after and "uid" in old["metadata"] else ""


def _is_same(old: Object, new: Object) -> bool:
    """Return whether two objects are written alike; otherwise, they may still be equal."""
    return old == new and repr(old) == repr(new)  # True == 1


def _is_program(item: Object, change: Change) -> bool:
    """Return whether a change is one of the supervisor's program, which nobody reviews here."""
    field, *keys = change.path
    is_file = field == "data" and keys and keys[0].endswith(".py]")
    return bool(is_file and PLAN in mapping_at(item, "data"))


def _reasons(rejected: Sequence[Rejection]) -> str:
    """Return why an update is rejected, with the fields that share a reason listed together."""
    fields: dict[str, list[str]] = {}
    for rejection in rejected:
        condition = f", unless {rejection.unless}" if rejection.unless else ""
        fields.setdefault(f"{rejection.why}{condition}", []).append(rejection.field)
    return "; ".join(f"{', '.join(names)} {why}" for why, names in fields.items())


def _hint(item: Object, certain: Sequence[Rejection]) -> str:
    """Return how to get a rejected change into the cluster."""
    if group_kind(item) == CLAIM:
        return "use a claim with another name: deleting this one may delete its data"
    if all(rejection.hint for rejection in certain):
        return "; ".join(dict.fromkeys(rejection.hint for rejection in certain))
    has_pods = "template" in mapping_at(item, "spec")
    subject = "it and its pods" if has_pods else "it"
    delete = f"delete {subject} first: {commands.delete_objects([item])}"
    annotations = mapping_at(item["metadata"], "annotations")
    for tool in TOOLS.values():
        name, word = tool.force
        if word in str(annotations.get(name)).split(","):
            return f"{delete}; {tool.title} does so itself ({name}: {word})"
    if has_pods and job_name(item):
        return f"{delete}; or set metadata.nameSuffix: hash, so that each change is a new job"
    return delete


def _title(item: Object) -> str:
    """Return the kind, the namespace if there is one, and the name of an object."""
    return f"{item['kind']} {'/'.join(filter(None, (job_key(item)[0], item['metadata']['name'])))}"


def _job_title(item: Object) -> str:
    """Return the namespace, if there is one, and the name of an object's job."""
    return "/".join(filter(None, job_key(item)))


def _new_job(objects: Sequence[Object], removed_jobs: Mapping[JobKey, Sequence[Object]]) -> Entry:
    """Return the entry of a new job, which may be a removed one under another name."""
    former = [
        items[0]
        for items in removed_jobs.values()
        if _without_suffix(items[0]) == _without_suffix(objects[0])
    ]
    heading = f"job {_job_title(objects[0])}: new"
    if len(former) == 1:
        heading += f"; renamed from {_job_title(former[0])}, which kubectl apply leaves unchanged"
    created = ", ".join(f"{item['kind']} {item['metadata']['name']}" for item in objects)
    return Entry(tuple(objects), "new", (heading, f"creates: {created}"))


def _without_suffix(item: Object) -> tuple[str, str, str]:
    """Return what is the same in a job with another hash of `nameSuffix` in its name.

    These are the namespace, the name in the job file, and the combination of a matrix.
    """
    metadata = item["metadata"]
    combination = mapping_at(metadata, "annotations").get(MATRIX)
    return (
        metadata.get("namespace") or "",
        str(metadata["labels"].get(PART_OF) or job_name(item)),
        str(combination or ""),
    )


def _removed(item: Object) -> Entry:
    """Return the entry of an object that is no longer rendered."""
    heading = f"{_title(item)}: no longer rendered, but kubectl apply does not delete it"
    return Entry((item,), "removed", (heading, f"to delete it: {commands.delete_objects([item])}"))


def _removed_job(objects: Sequence[Object]) -> Entry:
    """Return the entry of a job that is no longer rendered."""
    title = f"job {_job_title(objects[0])}"
    heading = f"{title}: no longer rendered, but kubectl apply does not delete it: it keeps running"
    command = f"to delete it: {commands.delete_job(objects)}"
    return Entry(tuple(objects), "removed", (heading, command))


def _summary(entries: Sequence[Entry]) -> str:
    """Return one line on the effect of applying everything."""
    counts: dict[Verdict, int] = {}
    for entry in entries:
        counts[entry.verdict] = counts.get(entry.verdict, 0) + len(entry.objects)
    if "taken" in counts:
        names = f"{counts['taken']} name{'s' if counts['taken'] > 1 else ''}"
        return f"do not apply it: {names} would be taken from others; rename the job or its roles\n"
    rejected = [item for entry in entries if entry.verdict == "rejected" for item in entry.objects]
    if not rejected:
        heading = "no change is certain to be" if "uncertain" in counts else "no change will be"
        parts = [f"{counts[name]} {word}" for name, word in COUNTED.items() if name in counts]
        return f"{heading} rejected: {', '.join(parts)}\n"
    total = sum(counts.values()) - counts.get("removed", 0)
    commands_first = commands.delete_objects(i for i in rejected if group_kind(i) != CLAIM)
    first = f"; first run: {commands_first}" if commands_first else ""
    return f"{_rejected(rejected, total)}{first}\n"


def _rejected(rejected: Sequence[Object], total: int) -> str:
    """Return how many of all changes will be rejected, and what state that leaves."""
    others = total - len(rejected)
    if not others:
        return f"{'the only change' if total == 1 else f'all {total} changes'} will be rejected"
    subject = "the job" if any(map(job_name, rejected)) else "the cluster"
    rest = "the other one" if others == 1 else f"the other {others}"
    return (
        f"{len(rejected)} of {total} changes will be rejected, but kubectl applies {rest}, "
        f"which leaves {subject} partly updated"
    )
