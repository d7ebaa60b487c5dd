"""Paired objects → the report that `mlgen diff` prints, short enough for a pull request.

Sources of the controllers' rules about the effects on pods:

- https://kubernetes.io/docs/concepts/workloads/controllers/, statefulset ("Update strategies"),
  deployment ("Strategy") and job ("Suspending a Job", "Elastic Indexed Jobs")
- https://kubernetes.io/docs/concepts/configuration/configmap/, "Mounted ConfigMaps are updated
  automatically"
"""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from mlgen.diff.compare import (
    JobKey,
    Pairing,
    changes,
    job_key,
    job_name,
    three_way_fields,
)
from mlgen.kubernetes.objects import Object, contains_secret, group_kind, is_built_in
from mlgen.kubernetes.updates import Change, FieldPath, Rule, Update, dotted, rejected
from mlgen.kubernetes.values import mapping, sequence, value_at
from mlgen.kubernetes.versions import KubeVersion
from mlgen.objects.labels import INSTANCE, JOB, MATRIX, PART_OF, PROGRAM
from mlgen.objects.supervisor import planned
from mlgen.output.terminal import unified
from mlgen.output.yaml import style, yaml_text
from mlgen.variants.gitops import tools

CLAIM = ("", "PersistentVolumeClaim")

REMOVED = "no longer rendered, but kubectl apply does not delete it"

CHANGED_PROGRAM = "binaryData: the supervisor's program, which mlgen verify checks"

Verdict = Literal["new", "changed", "uncertain", "rejected", "removed", "taken"]

COUNTED: Mapping[Verdict, str] = {
    "new": "new",
    "changed": "changed",
    "uncertain": "may be rejected",
    "removed": "no longer rendered",
}
"""The words of the summary for each verdict, if no object is certain to be rejected."""


STOPS = ("stops ", "restarts ", "removes ", "replaces ")
"""The first words of the effects that stop pods."""


class Entry(NamedTuple):
    """A part of the report: an object that differs, or a job that is created or removed.

    Attributes:
        objects: the object, or the objects of the job.
        verdict: the effect of `kubectl apply` on them; `uncertain` if it may be rejected, `taken`
            if the object in the cluster belongs to another owner.
        lines: the text, with the heading first.
        effects: on pods, each in a few words.
    """

    objects: Sequence[Object]
    verdict: Verdict
    lines: tuple[str, ...]
    effects: tuple[str, ...] = ()

    @property
    def stops_pods(self) -> bool:
        """True if pods that run are stopped, or keep running without their job."""
        stops = (effect.startswith(STOPS) for effect in self.effects)
        return self.verdict == "removed" or any(stops)


def report(found: Sequence[Entry]) -> str:
    """Return all differences and their effects, with a summary last; "" if there are none."""
    if not found:
        return ""
    return "".join(["\n  ".join(entry.lines) + "\n" for entry in found] + [_summary(found)])


def entries(pairing: Pairing, kube_version: KubeVersion) -> Iterator[Entry]:
    """Yield an entry for each object that differs, and for each new or removed job."""
    existing = [new for old, new in pairing.pairs if old is not None]
    for old, new in pairing.pairs:
        job = pairing.new_jobs.get(job_key(new), ())
        if old is not None:
            yield from _updated(old, new, existing, kube_version)
        elif not job:
            yield Entry((new,), "new", (f"{_title(new)}: new",))
        elif job[0] is new:
            yield _new_job(job, pairing.removed_jobs)
    for old in pairing.removed:
        job = pairing.removed_jobs.get(job_key(old), ())
        if not job:
            command = f"to delete it: {delete_objects([old])}"
            yield Entry((old,), "removed", (f"{_title(old)}: {REMOVED}", command))
        elif job[0] is old:
            heading = f"job {_job_title(old)}: {REMOVED}: it keeps running"
            yield Entry(job, "removed", (heading, f"to delete it: {delete_job(job)}"))


def _updated(
    old: Object, new: Object, existing: Sequence[Object], kube_version: KubeVersion
) -> Iterator[Entry]:
    """Yield the entry of an existing object; none if it does not change.

    Args:
        old: the current object.
        new: the new object.
        existing: all existing objects; some may read a ConfigMap that changes.
        kube_version: the cluster's Kubernetes version.
    """
    fields = three_way_fields(old, new)
    if fields == new and repr(fields) == repr(new):  # True == 1
        return
    differences = changes(fields, new)
    if not differences:
        return
    update = Update(old, fields, new, tuple(differences), kube_version)
    refused = rejected(update)
    certain = [(field, rule) for field, rule in refused if not rule.unless]
    secret = any(map(contains_secret, (old, new)))
    shown = [change for change in differences if not _is_program(new, change)]
    lines = [line for change in shown for line in change_lines(change, secret=secret)]
    if shown != differences:
        lines.append(CHANGED_PROGRAM)
    if owner := _stranger(old, new):
        yield Entry((new,), "taken", (f"{_title(new)}: {owner}", *lines))
    elif certain:
        heading = f"{_title(new)}: will be rejected by the API server: {_reasons(certain)}"
        yield Entry((new,), "rejected", (heading, *lines, _hint(new, certain)))
    else:
        status = f"may be rejected by the API server: {_reasons(refused)}" if refused else "changed"
        on_pods = effects(update)
        heading = "; ".join([f"{_title(new)}: {status}", *on_pods])
        lines += readers(update, existing)
        verdict: Verdict = "uncertain" if refused else "changed"
        yield Entry((new,), verdict, (heading, *lines), tuple(on_pods))


def _stranger(old: Object, new: Object) -> str:
    """Return why the existing object is not the job's own; "" if it is.

    Names can collide: the role `b-c` of a job `a` and the role `c` of a job `a-b` have equal names.
    """
    before, after = (mapping(item["metadata"], "labels") for item in (old, new))
    if JOB in before:
        owner = str(before[JOB])
        return "" if owner in (after.get(JOB), after.get(INSTANCE)) else f"belongs to job {owner}"
    is_live = JOB in after and "uid" in old["metadata"]
    return "exists, but mlgen did not render it" if is_live else ""


def _is_program(item: Object, change: Change) -> bool:
    """Return True for a change of the supervisor's program, whose text helps no reviewer."""
    field, *names = change.path
    # Up to 0.2, each module of the program was a key of `data`.
    is_module = field == "data" and bool(names) and names[0].endswith(".py]")
    is_program = field == "binaryData" or names == ["annotations", f"[{PROGRAM}]"]
    return (is_module or is_program) and planned(item) is not None


def _reasons(refused: Sequence[tuple[str, Rule]]) -> str:
    """Return the reasons why an update is rejected, each with all of its fields."""
    fields: dict[str, list[str]] = {}
    for field, rule in refused:
        condition = f", unless {rule.unless}" if rule.unless else ""
        fields.setdefault(f"{rule.reason}{condition}", []).append(field)
    return "; ".join(f"{', '.join(names)} {why}" for why, names in fields.items())


def _hint(item: Object, certain: Sequence[tuple[str, Rule]]) -> str:
    """Return a hint on how to apply a rejected change."""
    if group_kind(item) == CLAIM:
        return "use another name: deleting this PersistentVolumeClaim may delete its data"
    hints = dict.fromkeys(rule.hint for _, rule in certain)
    if all(hints):
        return "; ".join(hints)
    has_pods = "template" in mapping(item, "spec")
    subject = "it and its pods" if has_pods else "it"
    delete = f"delete {subject} first: {delete_objects([item])}"
    annotations = mapping(item["metadata"], "annotations")
    for tool in tools().values():
        name, word = tool["force"]
        if word in str(annotations.get(name)).split(","):
            return f"{delete}; {tool['title']} does this automatically ({name}: {word})"
    if has_pods and job_name(item):
        return f"{delete}; or set metadata.nameSuffix: hash, so that each change is a new job"
    return delete


def _title(item: Object) -> str:
    """Return an object's kind, namespace (if any) and name."""
    return f"{item['kind']} {'/'.join(filter(None, (job_key(item)[0], item['metadata']['name'])))}"


def _job_title(item: Object) -> str:
    """Return the namespace (if any) and the name of an object's job."""
    return "/".join(filter(None, job_key(item)))


def _new_job(objects: Sequence[Object], removed_jobs: Mapping[JobKey, Sequence[Object]]) -> Entry:
    """Return the entry of a new job, which may be a removed job with a new name."""
    former = [
        items[0]
        for items in removed_jobs.values()
        if _without_suffix(items[0]) == _without_suffix(objects[0])
    ]
    heading = f"job {_job_title(objects[0])}: new"
    if len(former) == 1:
        heading += f"; renamed from {_job_title(former[0])}, which kubectl apply leaves unchanged"
    created = ", ".join(f"{item['kind']} {item['metadata']['name']}" for item in objects)
    return Entry(objects, "new", (heading, f"creates: {created}"))


def _without_suffix(item: Object) -> tuple[str, str, str]:
    """Return the identity of an object's job, without the hash of `nameSuffix`.

    It consists of the namespace, the name in the job file, and the combination of a matrix.
    """
    metadata = item["metadata"]
    combination = mapping(metadata, "annotations").get(MATRIX)
    return (
        metadata.get("namespace") or "",
        str(metadata["labels"].get(PART_OF) or job_name(item)),
        str(combination or ""),
    )


def _summary(entries: Sequence[Entry]) -> str:
    """Return one line about the effect of applying all objects."""
    counts: dict[Verdict, int] = {}
    for entry in entries:
        counts[entry.verdict] = counts.get(entry.verdict, 0) + len(entry.objects)
    if "taken" in counts:
        names = f"{counts['taken']} name{'s' if counts['taken'] > 1 else ''}"
        return f"do not apply it: {names} already in use by others; rename the job or its roles\n"
    rejected = [item for entry in entries if entry.verdict == "rejected" for item in entry.objects]
    if not rejected:
        heading = "no change will certainly be" if "uncertain" in counts else "no change will be"
        parts = [f"{counts[name]} {word}" for name, word in COUNTED.items() if name in counts]
        return f"{heading} rejected: {', '.join(parts)}\n"
    total = sum(counts.values()) - counts.get("removed", 0)
    commands_first = delete_objects(i for i in rejected if group_kind(i) != CLAIM)
    first = f"; first run: {commands_first}" if commands_first else ""
    return f"{_rejected(rejected, total)}{first}\n"


def _rejected(rejected: Sequence[Object], total: int) -> str:
    """Return a sentence with the number of rejected changes and the resulting state."""
    others = total - len(rejected)
    if not others:
        return f"{'the only change' if total == 1 else f'all {total} changes'} will be rejected"
    subject = "the job" if any(map(job_name, rejected)) else "the cluster"
    rest = "the other one" if others == 1 else f"the other {others}"
    return (
        f"{len(rejected)} of {total} changes will be rejected, but kubectl applies {rest}, "
        f"which leaves {subject} partly updated"
    )


def delete_objects(objects: Iterable[Object]) -> str:
    """Return the command that deletes objects by name, one for each namespace; "" for none."""
    by_namespace: dict[str, list[Object]] = {}
    for item in objects:
        by_namespace.setdefault(item["metadata"].get("namespace") or "", []).append(item)
    lines = []
    for namespace, items in by_namespace.items():
        names: dict[str, list[str]] = {}
        for item in items:
            names.setdefault(kind_argument(item), []).append(item["metadata"]["name"])
        words = [f"{kind}/{name}" for kind, listed in names.items() for name in listed]
        if len(names) == 1:
            words = [word for kind, listed in names.items() for word in (kind, *listed)]
        lines.append(_delete(words, namespace))
    return " && ".join(lines)


def delete_job(objects: Sequence[Object]) -> str:
    """Return the command that deletes a job's objects by its label.

    Args:
        objects: objects of one job, at least one.
    """
    namespace, name = job_key(objects[0])
    kinds = ",".join(dict.fromkeys(kind_argument(item) for item in objects))
    return _delete([kinds, "-l", f"{JOB}={name}"], namespace)


def kind_argument(item: Object) -> str:
    """Return kubectl's name of an object's kind, group-qualified unless it is built in."""
    group, kind = group_kind(item)
    return kind.lower() if is_built_in(item["apiVersion"]) else f"{kind.lower()}.{group}"


def _delete(words: Sequence[str], namespace: str) -> str:
    """Return a `kubectl delete` command that does not read untrusted names as options."""
    option = ["-n", namespace] if namespace else []
    if any(word.startswith("-") and word != "-l" for word in words):
        return shlex.join(["kubectl", "delete", *option, "--", *words])
    return shlex.join(["kubectl", "delete", *words, *option])


MAX_INLINE = 60
"""The maximum length of a value that is shown on the line of its field."""

MAX_DIFF_LINES = 40
"""The maximum number of lines of a value's diff that are shown. The rest is counted."""

MAX_VALUE_LINES = 10
"""The maximum number of lines of an added or removed value. Longer values are only counted."""

NOT_SET = "(not set)"


def change_lines(change: Change, *, secret: bool) -> list[str]:
    """Return a change as one line if its values are short, else as a small unified diff.

    Args:
        change: the change of one field.
        secret: True if the object is a Secret. Its values are not shown, not even under a misspelt
            field.
    """
    name = dotted(change.path)
    if secret and not _is_public(change.path):
        old, new = (NOT_SET if value is None else "***" for value in (change.old, change.new))
        return [f"{name}: {old} -> {new}"]
    if change.order:
        return [f"{name}: new order: {', '.join(map(str, change.new))}"]
    before, after = _inline(change.old), _inline(change.new)
    if NOT_SET in (before, after):  # the manifest shows a long value better than the report
        before, after = before or _counted(change.old), after or _counted(change.new)
    if before is not None and after is not None:
        notes = [" (default)" if change.implied == side else "" for side in ("old", "new")]
        return [f"{name}: {before}{notes[0]} -> {after}{notes[1]}"]
    return [f"{name}:", *(f"  {line}" for line in _diff(change.old, change.new))]


def _is_public(path: FieldPath) -> bool:
    """Return True if a field of a Secret never contains a secret value."""
    return path[0] in ("type", "immutable") or path[:2] == ("metadata", "labels")


def _inline(value: Any) -> str | None:
    """Return a short value in YAML; None if it does not fit on one line."""
    if value is None:
        return NOT_SET
    is_plain = isinstance(value, str) and style(value) is None
    text = str(value) if is_plain else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_INLINE and "\n" not in str(value) else None


def _counted(value: Any) -> str | None:
    """Return the number of lines of a long value; None for a short value."""
    count = len(_lines(value))
    return f"({count} lines)" if count > MAX_VALUE_LINES else None


def _diff(old: Any, new: Any) -> Iterator[str]:
    """Return a unified diff of two values, without its header of file names."""
    diff = list(unified(_lines(old), _lines(new), end="", context=1))
    yield from (line.rstrip() for line in diff[:MAX_DIFF_LINES])
    if len(diff) > MAX_DIFF_LINES:
        yield f"({len(diff) - MAX_DIFF_LINES} more lines)"


def _lines(value: Any) -> list[str]:
    """Return a value as lines; a single line, such as TF_CONFIG, is split into its items."""
    if value is None:
        return []
    if not isinstance(value, str):
        return yaml_text([value]).splitlines()[1:]
    return value.splitlines() if "\n" in value else re.split(r"(?<=[,; ])", value)


IN_FILES = "sees the change in its mounted files within about a minute"
AFTER_RESTART = "sees the change only after its containers restart"
IN_BOTH = f"{IN_FILES}, elsewhere only after its containers restart"


def effects(update: Update) -> list[str]:
    """Return the effects on pods, each in a few words; [] for kinds without a rule."""
    rule = EFFECTS.get(group_kind(update.new))
    return list(rule(update)) if rule else []


def readers(update: Update, objects: Sequence[Object]) -> list[str]:
    """Return the objects that read a changed ConfigMap or Secret, and when they see the change.

    Args:
        update: an object's update. Only ConfigMaps and Secrets have readers.
        objects: the possible readers.
    """
    kind, metadata = update.new["kind"], update.new["metadata"]
    if kind not in REFERENCES or not (_changes(update, "data") or _changes(update, "binaryData")):
        return []
    lines = []
    for item in objects:
        namespaces = [meta.get("namespace") or "" for meta in (item["metadata"], metadata)]
        if namespaces[0] == namespaces[1] and value_at(item, ("spec", "template")):
            pod = value_at(item, ("spec", "template", "spec"))
            when = _when_seen(pod, kind, metadata["name"])
            # The supervisor reads its plan and its program only once.
            when = AFTER_RESTART if when and planned(update.new) else when
            lines += [f"{item['kind']} {item['metadata']['name']} {when}"] if when else []
    return lines


REFERENCES = {
    "ConfigMap": ("configMap", "name", "configMapRef", "configMapKeyRef"),
    "Secret": ("secret", "secretName", "secretRef", "secretKeyRef"),
}
"""The fields of a pod that refer to objects of a kind.

These are the volume source, its field with the object's name, the field of an item of `envFrom`,
and the field of a variable's `valueFrom`.
"""


def _when_seen(pod: Any, kind: str, name: str) -> str:
    """Return when a pod sees a change of an object; "" if the pod does not refer to it."""
    volume_source, volume_name, env_from, value_from = REFERENCES[kind]
    volumes = [
        volume.get("name")
        for volume in _items(pod, "volumes")
        if name == value_at(volume, (volume_source, volume_name))
        or any(
            name == value_at(source, (volume_source, "name"))
            for source in _items(volume, "projected", "sources")
        )
    ]
    sub_paths, names = [], []
    for container in (*_items(pod, "initContainers"), *_items(pod, "containers")):
        mounts = [each for each in _items(container, "volumeMounts") if each.get("name") in volumes]
        sub_paths += [mount.get("subPath") or mount.get("subPathExpr") for mount in mounts]
        path = ("valueFrom", value_from, "name")
        names += [value_at(variable, path) for variable in _items(container, "env")]
        names += [value_at(source, (env_from, "name")) for source in _items(container, "envFrom")]
    # Files under a subPath and variables of a running container are never updated.
    needs_restart = name in names or any(sub_paths)
    if not all(sub_paths):
        return IN_BOTH if needs_restart else IN_FILES
    return AFTER_RESTART if needs_restart else ""


def _items(value: Any, *path: str) -> list[Mapping[str, Any]]:
    """Return the mappings in the list at a path; [] if there is no list."""
    return [item for item in sequence(value, *path) if isinstance(item, dict)]


def _changes(update: Update, *path: str) -> bool:
    """Return True if an update changes a field or a part of it."""
    return any(change.path[: len(path)] == path for change in update.changes)


def _pods(count: int) -> str:
    return f"{count} pod{'s' if count > 1 else ''}"


def _counts(update: Update, name: str) -> tuple[int, int]:
    """Return the old and the new value of a number of pods in the spec; by default 1."""
    values = update.old_value("spec", name), update.new_value("spec", name)
    old, new = (value if isinstance(value, int) else 1 for value in values)
    return old, new


def _scaling(old: int, new: int) -> Iterator[str]:
    if new != old:
        yield f"{'adds' if new > old else 'removes'} {_pods(abs(new - old))}"


def _job(update: Update) -> Iterator[str]:
    old, new = _counts(update, "parallelism")
    suspended = bool(update.old_value("spec", "suspend"))
    suspends = bool(update.new_value("spec", "suspend"))
    if any(map(_is_finished, update.old_value("status", "conditions") or [])):
        yield "the Job has finished, so no pods start"
    elif _changes(update, "spec", "suspend") and suspended != suspends:
        yield f"stops {_pods(old)}" if suspends else f"starts {_pods(new)}"
    elif not suspends:
        yield from _scaling(old, new)


def _is_finished(condition: Mapping[str, Any]) -> bool:
    """Return True if a Job's condition means that it has completed or failed."""
    return condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True"


def _stateful_set(update: Update) -> Iterator[str]:
    old, new = _counts(update, "replicas")
    if _changes(update, "spec", "template"):
        if update.new_value("spec", "updateStrategy", "type") == "OnDelete":
            yield "pods keep their template until you delete them (updateStrategy: OnDelete)"
        else:
            rolling = ("spec", "updateStrategy", "rollingUpdate")
            restarted = min(old, new) - (update.new_value(*rolling, "partition") or 0)
            one_by_one = restarted > 1 and not update.new_value(*rolling, "maxUnavailable")
            order = ", one at a time" if one_by_one else ""
            yield f"restarts {_pods(restarted)}{order}" if restarted > 0 else "no pod restarts"
    yield from _scaling(old, new)


def _deployment(update: Update) -> Iterator[str]:
    old, new = _counts(update, "replicas")
    if _changes(update, "spec", "template"):
        pods = _pods(min(old, new))
        recreate = update.new_value("spec", "strategy", "type") == "Recreate"
        yield f"stops {pods}, then starts new ones" if recreate else f"replaces {pods}"
    yield from _scaling(old, new)


def _daemon_set(update: Update) -> Iterator[str]:
    if _changes(update, "spec", "template"):
        yield "restarts its pods on all nodes"


def _service(update: Update) -> Iterator[str]:
    if _changes(update, "spec", "selector"):
        yield "routes to other pods immediately"
    # Source: patchAllocatedValues in pkg/registry/core/service/storage.
    address = ("spec", "clusterIP")
    omitted = any(change.path == address and change.new is None for change in update.changes)
    if omitted and update.new_value("spec", "type") != "ExternalName":
        yield "keeps its clusterIP"


EFFECTS: dict[tuple[str, str], Callable[[Update], Iterator[str]]] = {
    ("", "Service"): _service,
    ("apps", "DaemonSet"): _daemon_set,
    ("apps", "Deployment"): _deployment,
    ("apps", "StatefulSet"): _stateful_set,
    ("batch", "Job"): _job,
}
"""The rule for each API group and kind."""
