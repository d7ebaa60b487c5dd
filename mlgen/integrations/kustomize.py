"""A KRM function for kustomize and kpt: replace every job in a ResourceList.

https://github.com/kubernetes-sigs/kustomize/blob/master/cmd/config/docs/api-conventions/functions-spec.md
kpt shows the `results` of the list, and kustomize ignores them. Both check the exit status.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from mlgen import checks, dialects
from mlgen.documents import overrides
from mlgen.documents import resource_list as resourcelist
from mlgen.documents.files import Text
from mlgen.documents.reader import read_documents
from mlgen.documents.resource_list import LOCAL, WORDS, Item, ResourceList
from mlgen.kubernetes import names, versions
from mlgen.kubernetes.objects import Object, group_of
from mlgen.output.files import Stored
from mlgen.output.resource_list import Replacements, resource_list_texts
from mlgen.pipeline import Outcome, Walk
from mlgen.problems import Collector, MlgenError, Place, Problem, choice, dotted
from mlgen.result import Options
from mlgen.variants import gitops

OPTIONS = ("as", "for", "kube-version", "namespace", "only-jobs", "set", "strict", "supervisor")
"""The command line options that the data of a ConfigMap can set."""

ONLY_RENDERED = "remove it: --only-jobs rejects objects that are not rendered"

Problems = list[tuple[Item, Problem]]
"""Problems, each with the item that contains it."""


def krm(text: Text, options: Options) -> tuple[Iterator[str], tuple[Problem, ...]]:
    """Return a ResourceList with every job replaced by its manifests, in parts, and all problems.

    Args:
        text: a ResourceList. If its functionConfig is a job, the job's manifests are appended.
        options: the options of the command line; a ConfigMap as functionConfig overrides them.

    Returns:
        The list with `results`, and the problems. If there are errors, its items are unchanged. If
        the text is not a ResourceList, there is no list.
    """
    try:
        resource_list = resourcelist.read(text)
    except MlgenError as error:
        return iter(()), error.problems
    manifests, problems = _rendered(resource_list, options)
    if Collector(problem for _, problem in problems).has_errors:
        manifests = {}
    results = [_result(item, problem) for item, problem in problems]
    output = resource_list_texts(resource_list, manifests, results)
    return output, tuple(problem for _, problem in problems)


def _rendered(resource_list: ResourceList, options: Options) -> tuple[Replacements, Problems]:
    """Return the objects of each job, by the index of its item, and all problems."""
    config, problems = resource_list.config, Problems()
    if config and _is_foreign(config):
        try:
            options = _options(config, options)
        except MlgenError as error:
            problems += _located(config, error.problems)
    others = [item for item in resource_list.items if _is_foreign(item) and not item.local]
    problems += _not_jobs(resource_list) if options.only_jobs else []
    jobs = _jobs(resource_list)
    rendered = {index for index, _ in jobs}
    for number, item in enumerate(resource_list.items):
        if number not in rendered:
            each = item.problems
            each = each if options.only_jobs else [one for one in each if one.path in WORDS]
            problems += _located(item, each)
    walk, numbers = Walk(options), dict[int, int]()
    walk.reserve(item.key for item in others)
    texts = dialects.in_context(Text(item.origin, item.text) for _, item in jobs)
    for (index, item), text in zip(jobs, texts, strict=False):
        known = len(walk.problems)
        outcomes = list(walk.outcomes_of(text, dialects.documents(text)))
        objects = [entry for each in outcomes for part in each.parts for entry in part.objects]
        numbers[index] = len(numbers)
        walk.write(Outcome(text), objects)
        problems += _located(item, walk.problems[known:])
    return Stored(numbers, lambda index: walk.spool[numbers[index]]), problems


def _jobs(resource_list: ResourceList) -> list[tuple[int, Item]]:
    """Return the jobs to render with their indexes. A job as functionConfig is the last."""
    items, config = resource_list.items, resource_list.config
    if config and _is_foreign(config):
        config = None
    jobs = [
        (index, item)
        for index, item in enumerate(items)
        if not _is_foreign(item) and not item.local and not (config and item.key == config.key)
    ]
    return [*jobs, (len(items), config)] if config else jobs


def _not_jobs(resource_list: ResourceList) -> Problems:
    """Report the items that are not rendered, for --only-jobs.

    A later function can remove the annotation `LOCAL`, and the item would then be applied. kpt
    passes its own Kptfile, and kustomize a copy of the functionConfig of a generator.
    """
    config = resource_list.config
    problems = Problems()
    for item in resource_list.items:
        is_kptfile = (group_of(item.version), item.kind) == ("kpt.dev", "Kptfile")
        if item.local and _is_single(item) and (is_kptfile or _is_copy(item, config)):
            continue
        if _is_foreign(item):
            problems.append((item, _at(item, checks.foreign(item.kind))))
        elif item.local or (config and item.key == config.key):
            reason = f"the annotation {LOCAL}" if item.local else "a functionConfig of this name"
            message = f"the {item.kind} is not rendered, because of {reason}"
            problem = Problem((), message, "foreign-object", ONLY_RENDERED)
            problems.append((item, _at(item, problem)))
    return problems


def _is_single(item: Item) -> bool:
    """Return False for an object with `items`: kubectl applies them instead, whatever its kind."""
    return "items" not in _content(item)


def _is_copy(item: Item, config: Item | None) -> bool:
    """Return True for a copy of the functionConfig, up to annotations."""
    return config is not None and _content(item) == _content(config)


def _content(item: Item) -> dict[str, Any]:
    """Return the data of an object without annotations; {} if it cannot be read."""
    (document,) = read_documents(Text(item.origin, item.text))
    if isinstance(document, list):
        return {}
    data: dict[str, Any] = document.data
    metadata = data.get("metadata")
    if not isinstance(metadata, dict):
        return data
    return data | {"metadata": {name: metadata[name] for name in metadata if name != "annotations"}}


def _is_foreign(item: Item) -> bool:
    return dialects.is_foreign(item.version, item.kind)


def _located(item: Item, problems: Iterable[Problem]) -> Problems:
    return [(item, _at(item, problem)) for problem in problems]


def _at(item: Item, problem: Problem) -> Problem:
    """Replace a location in an item's text by the item, because kustomize or kpt wrote the text."""
    if problem.place and problem.place.file != item.origin:
        return problem
    return replace(problem, place=Place(item.origin, 0))


def _options(config: Item, options: Options) -> Options:
    """Return the options, overridden by the data of a ConfigMap.

    Raises:
        MlgenError: `config` is not a ConfigMap, or an option is unknown or has an invalid value.
    """
    if (config.version, config.kind) != ("v1", "ConfigMap"):
        message = f"{config.version} {config.kind} cannot be a functionConfig"
        hint = "use a ConfigMap with options, a TrainingJob, or a custom resource of an operator"
        raise MlgenError([Problem((), message, "unknown-kind", hint)])
    (document,) = read_documents(Text(config.origin, config.text))
    if isinstance(document, list):
        raise MlgenError(document)
    problems, data = list(document.problems), document.data.get("data") or {}
    if not isinstance(data, dict):
        raise MlgenError([Problem(("data",), "expected a mapping", "wrong-type")])
    for name, value in data.items():
        path = ("data", name)
        try:
            text = value if isinstance(value, str) else str(document.texts.get(path, value))
            options = _with(options, name, text)
        except ValueError as error:
            problems.append(Problem(path, str(error), "bad-value"))
        except KeyError:
            hint = choice(name, OPTIONS)
            problems.append(Problem(path, f'unknown option "{name}"', "unknown-field", hint))
    if problems:
        raise MlgenError(problems)
    return options


def _is_jobset(text: str) -> bool:
    if text not in ("jobs", "jobset"):
        raise ValueError(f'expected jobs or jobset, got "{text}"')
    return text == "jobset"


READERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "as": ("jobset", _is_jobset),
    "for": ("target", gitops.tool),
    "kube-version": ("kube_version", versions.parse),
    "namespace": ("namespace", names.namespace),
}
"""The field of `Options` for each option with one value, and the function that parses it."""


def _with(options: Options, name: str, text: str) -> Options:
    """Return the options with one of them overridden.

    Args:
        options: the options.
        name: one of `OPTIONS`.
        text: its value as written in the ConfigMap.

    Raises:
        KeyError: the name is unknown.
        ValueError: the value is invalid; the message contains the reason.
    """
    if name in READERS:
        field, read = READERS[name]
        if name == "namespace" and options.site:
            options.site.require_namespace(text)
        return replace(options, **{field: read(text)})
    if name == "set":
        lines = filter(None, map(str.strip, text.splitlines()))
        return replace(options, settings=(*options.settings, *map(overrides.parse, lines)))
    if name not in ("supervisor", "only-jobs", "strict"):
        raise KeyError(name)
    if text not in ("true", "false"):
        raise ValueError(f'expected true or false, got "{text}"')
    if name == "supervisor":
        return replace(options, supervisor=text == "true")
    # The list cannot allow what the caller rejects.
    only_jobs = options.only_jobs or (name == "only-jobs" and text == "true")
    strict = options.strict or (name == "strict" and text == "true")
    return replace(options, only_jobs=only_jobs, strict=strict)


def _result(item: Item, problem: Problem) -> Object:
    """Return a problem as an entry of `results` (functions-spec.md)."""
    message = str(replace(problem, path=(), place=None, warning=False))
    result: Object = {
        "message": message,
        "severity": "warning" if problem.warning else "error",
        "resourceRef": {"apiVersion": item.version, "kind": item.kind, "name": item.name},
    }
    if item.namespace:
        result["resourceRef"]["namespace"] = item.namespace
    if problem.path:
        result["field"] = {"path": dotted(problem.path)}
    if item.path:
        result["file"] = {"path": item.path}
    return result
