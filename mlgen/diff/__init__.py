"""Two sets of manifests → what `kubectl apply` of the second over the first would come to.

Not only what differs, but what the API server says to it, what happens to pods, and what to do.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlgen import pipeline
from mlgen.diff import live
from mlgen.diff import text as shown
from mlgen.diff.compare import changes
from mlgen.diff.effects import effects, readers
from mlgen.diff.refusals import Refusal, refusals
from mlgen.documents.files import texts
from mlgen.kubernetes.groups import group_kind, is_built_in
from mlgen.kubernetes.immutability import Update
from mlgen.kubernetes.objects import Key
from mlgen.objects.labels import INSTANCE, JOB
from mlgen.problems import MlgenError, Problem
from mlgen.result import Options, Rendered, Result
from mlgen.variants.gitops import TOOLS

Object = dict[str, Any]

MANAGED_BY = "app.kubernetes.io/managed-by"
PART_OF = "app.kubernetes.io/part-of"

CLAIM = ("", "PersistentVolumeClaim")


@dataclass(frozen=True, slots=True)
class Comparison:
    """What there is to say.

    Attributes:
        text: for standard output; empty where nothing differs.
        warnings: on the new manifests.
    """

    text: str
    warnings: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """An object that differs, or a job whose objects all come or go.

    Attributes:
        objects: what is spoken of.
        verdict: `new`, `changed`, `refused`, `unsure` or `gone`.
        lines: what is said of it.
    """

    objects: tuple[Object, ...]
    verdict: str
    lines: tuple[str, ...]


def files(old: str, new: str, options: Options) -> Comparison:
    """Compare what two files or folders render to.

    Raises:
        MlgenError: with every problem of both.
    """
    results: list[Result] = []
    problems: list[Problem] = []
    for name in (old, new):
        try:
            results.append(pipeline.render(texts((name,)), options))
        except MlgenError as error:
            problems += error.problems
    if problems:
        raise MlgenError(problems)
    before, after = map(_objects, results)
    return Comparison(_text(before, after, options), results[1].warnings)


def cluster(new: str, options: Options) -> Comparison:
    """Compare what the cluster has with what a file or folder renders to.

    Raises:
        MlgenError: the manifests cannot be rendered, or kubectl cannot be asked.
    """
    result = pipeline.render(texts((new,)), options)
    wanted = [_placed(item, options.namespace) for item in _objects(result)]
    return Comparison(_text(live.objects(wanted), wanted, options), result.warnings)


def _objects(result: Result) -> list[Object]:
    """Every object that can be applied under a name; what a List holds are objects of their own."""
    found: list[Object] = []
    for part in result.parts:
        for item in part.objects if isinstance(part, Rendered) else [part.document.data]:
            found += item.get("items") or [] if group_kind(item) == ("", "List") else [item]
    return [_decoded(item) for item in found if _is_named(item)]


def _is_named(item: Any) -> bool:
    meta = _mapping(item, "metadata") if isinstance(item, Mapping) else {}
    names = (meta.get("name"), meta.get("namespace") or "")
    return bool(names[0]) and all(isinstance(name, str) for name in names)


def _placed(item: Object, namespace: str | None) -> Object:
    """An object where `kubectl apply -n` would put it."""
    if namespace is None or item["metadata"].get("namespace"):
        return item
    return {**item, "metadata": {**item["metadata"], "namespace": namespace}}


def _decoded(item: Object) -> Object:
    """A Secret as the API server keeps it: a text of `stringData` becomes one of `data`."""
    if group_kind(item) != ("", "Secret") or not item.get("stringData"):
        return item
    texts = {k: b64encode(str(v).encode()).decode() for k, v in item["stringData"].items()}
    kept = {name: value for name, value in item.items() if name != "stringData"}
    return {**kept, "data": {**(item.get("data") or {}), **texts}}


def _key(item: Object, *, namespace: bool = True) -> Key:
    space = item["metadata"].get("namespace") if namespace else None
    return (*group_kind(item), space or "", item["metadata"]["name"])


def _paired(
    before: Sequence[Object], after: Sequence[Object]
) -> Iterator[tuple[Object | None, Object]]:
    """Return what is wanted, each with what there is of it.

    A cluster always says the namespace of an object that has one, and a manifest need not.
    """
    exact = {_key(item): item for item in before}
    read = {_key(item, namespace=False): item for item in before if "uid" in item["metadata"]}
    for new in after:
        alike = read.get(_key(new, namespace=False))
        spaces = [item["metadata"].get("namespace") for item in (alike, new) if item]
        yield exact.get(_key(new)) or (None if all(spaces) else alike), new


def _text(before: Sequence[Object], wanted: Sequence[Object], options: Options) -> str:
    """Return all that differs, and what it comes to; nothing where nothing does.

    Args:
        before: what there is.
        wanted: what there shall be.
        options: of the command line.
    """
    pairs = list(_paired(before, wanted))
    there = [old for old, _ in pairs if old]
    stay = [new for old, new in pairs if old]
    met = {id(old) for old in there}
    left = [old for old in before if id(old) not in met]
    come = _jobs((new for old, new in pairs if old is None), there)
    gone = _jobs(left, wanted)
    entries: list[Entry | None] = []
    for old, new in pairs:
        if old is not None:
            entries.append(_compared(old, new, stay, options))
        elif _home(new) not in come:
            entries.append(Entry((new,), "new", (f"{_called(new)}: new",)))
        elif come[_home(new)][0] is new:
            entries.append(_new_job(come[_home(new)], gone))
    for old in left:
        if _home(old) not in gone:
            entries.append(_left(old))
        elif gone[_home(old)][0] is old:
            entries.append(_left_job(gone[_home(old)]))
    found = [entry for entry in entries if entry]
    blocks = ["\n  ".join(entry.lines) + "\n" for entry in found]
    return "".join([*blocks, _summary(found)]) if found else ""


def _compared(old: Object, new: Object, stay: Sequence[Object], options: Options) -> Entry | None:
    """What is to be said of an object that is there and wanted, if the two differ.

    Args:
        old: as it is there.
        new: as it is wanted.
        stay: all that is there and wanted.
        options: of the command line.
    """
    known = live.spoken_of(old, new)
    found = changes(known, new)
    if not found:
        return None
    update = Update(old, known, new, tuple(found), options.kube_version)
    against = refusals(update)
    secret = group_kind(new) == ("", "Secret")
    lines = [line for change in found for line in shown.lines(change, secret=secret)]
    sure = [refusal for refusal in against if not refusal.unless]
    if sure:
        head = f"{_called(new)}: apply will be refused: {_reasons(sure)}"
        return Entry((new,), "refused", (head, *lines, _hint(new, sure)))
    verdict = f"apply may be refused: {_reasons(against)}" if against else "changed"
    head = "; ".join([f"{_called(new)}: {verdict}", *effects(update)])
    return Entry((new,), "unsure" if against else "changed", (head, *lines, *readers(update, stay)))


def _reasons(found: Sequence[Refusal]) -> str:
    texts: dict[str, list[str]] = {}
    for refusal in found:
        unless = f", unless {refusal.unless}" if refusal.unless else ""
        texts.setdefault(f"{refusal.why}{unless}", []).append(refusal.field)
    return "; ".join(f"{', '.join(fields)} {why}" for why, fields in texts.items())


def _hint(item: Object, against: Sequence[Refusal]) -> str:
    delete = _delete([item])
    if group_kind(item) == CLAIM:
        return "take a claim of another name: the data goes with the one that is deleted"
    if all(refusal.hint for refusal in against):
        return "; ".join(dict.fromkeys(refusal.hint for refusal in against))
    pods = "template" in _mapping(item, "spec")
    first = f"delete it first{', which ends its pods' if pods else ''}: {delete}"
    annotations = _mapping(item["metadata"], "annotations")
    for tool in TOOLS.values():
        name, word = tool.force
        if word in str(annotations.get(name)).split(","):
            return f"{first}; {tool.title} does that by itself ({name}: {word})"
    if pods and _job(item):
        return f"{first}; or let the job's name change: metadata.nameSuffix: hash"
    return first


def _mapping(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """What stands under a name, if it is what the API server wants there."""
    found = value.get(name)
    return found if isinstance(found, Mapping) else {}


def _job(item: Object) -> str:
    """Return the job that an object is of; "" if it is of none.

    What outlives its job, the ConfigMap of its status, has not the label by which that is deleted.
    """
    labels = _mapping(item["metadata"], "labels")
    ours = labels.get(MANAGED_BY) == "mlgen"
    return str(labels.get(JOB) or (ours and labels.get(INSTANCE)) or "")


Home = tuple[str, str]
"""The namespace of a job and its name."""


def _home(item: Object) -> Home:
    return item["metadata"].get("namespace") or "", _job(item)


def _jobs(items: Iterable[Object], others: Iterable[Object]) -> dict[Home, list[Object]]:
    """Return the objects of the jobs that have none among the others."""
    known = {_home(item) for item in others}
    found: dict[Home, list[Object]] = {}
    for item in items:
        if _job(item) and _home(item) not in known:
            found.setdefault(_home(item), []).append(item)
    return found


def _called(item: Object) -> str:
    return f"{item['kind']} {'/'.join(filter(None, (_home(item)[0], item['metadata']['name'])))}"


def _titled(item: Object) -> str:
    return "/".join(filter(None, _home(item)))


def _new_job(objects: Sequence[Object], gone: Mapping[Home, Sequence[Object]]) -> Entry:
    """A job that comes; perhaps it is one that goes, under another name."""
    name = _titled(objects[0])
    made = ", ".join(f"{item['kind']} {item['metadata']['name']}" for item in objects)
    alike = [items[0] for items in gone.values() if _family(items[0]) == _family(objects[0])]
    head = f"job {name}: new"
    if len(alike) == 1:
        head = f"the job's name changed: {name} is new, {_titled(alike[0])} stays as it is"
    return Entry(tuple(objects), "new", (head, f"new: {made}"))


def _family(item: Object) -> tuple[str, str]:
    """Return by which an object is known whatever suffix the job's name has."""
    meta = item["metadata"]
    return meta.get("namespace") or "", str(meta["labels"].get(PART_OF))


def _left(item: Object) -> Entry:
    head = f"{_called(item)}: no longer rendered; kubectl apply leaves it: {_delete([item])}"
    return Entry((item,), "gone", (head,))


def _left_job(objects: Sequence[Object]) -> Entry:
    name, space = _job(objects[0]), objects[0]["metadata"].get("namespace")
    kinds = ",".join(dict.fromkeys(_word(item) for item in objects))
    command = f"kubectl delete {kinds} -l {JOB}={name}{f' -n {space}' if space else ''}"
    head = f"job {_titled(objects[0])}: no longer rendered; kubectl apply leaves it, and it runs on"
    return Entry(tuple(objects), "gone", (head, f"to end it: {command}"))


def _word(item: Object) -> str:
    """Return by which kubectl knows a kind; one that others have too needs its group."""
    group, kind = group_kind(item)
    return kind.lower() if is_built_in(item["apiVersion"]) else f"{kind.lower()}.{group}"


def _delete(objects: Iterable[Object]) -> str:
    """Return what deletes objects: a command for each namespace."""
    spaces: dict[str, list[Object]] = {}
    for item in objects:
        spaces.setdefault(item["metadata"].get("namespace") or "", []).append(item)
    commands = []
    for space, items in spaces.items():
        kinds: dict[str, list[str]] = {}
        for item in items:
            kinds.setdefault(_word(item), []).append(item["metadata"]["name"])
        names = [f"{kind}/{name}" for kind, names in kinds.items() for name in names]
        if len(kinds) == 1:
            names = [*kinds, *(name for names in kinds.values() for name in names)]
        commands.append(" ".join(["kubectl delete", *names, *(["-n", space] if space else [])]))
    return " && ".join(commands)


def _summary(entries: Sequence[Entry]) -> str:
    """Return one line: what the whole apply does."""
    count = dict.fromkeys(("new", "changed", "unsure", "refused", "gone"), 0)
    for entry in entries:
        count[entry.verdict] += len(entry.objects)
    refused = [item for e in entries if e.verdict == "refused" for item in e.objects]
    total = sum(count.values()) - count["gone"]
    if not refused:
        words = [f"{count[name]} {what}" for name, what in VERDICTS.items() if count[name]]
        sure = "is sure to be" if count["unsure"] else "will be"
        return f"nothing {sure} refused: {', '.join(words)}\n"
    others = total - len(refused)
    what = "the job" if any(map(_job, refused)) else "what runs"
    if others:
        rest = f"and kubectl applies {_rest(others)}: {what} would be half new"
        line = f"{len(refused)} of {total} changes will be refused, {rest}"
    else:
        line = f"{'the one change' if total == 1 else f'all {total} changes'} will be refused"
    hint = _delete(item for item in refused if group_kind(item) != CLAIM)
    return f"{line}{f'; first: {hint}' if hint else ''}\n"


def _rest(count: int) -> str:
    return "the other one" if count == 1 else f"the other {count}"


VERDICTS = {
    "new": "new",
    "changed": "changed",
    "unsure": "may be refused",
    "gone": "no longer rendered",
}
