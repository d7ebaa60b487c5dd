"""kustomize and kpt: the KRM function, which gets a ResourceList and returns one.

kustomize does not read what stands in `results`, and kpt shows it; both look at the exit status.
"""

from dataclasses import replace
from typing import Any

from mlgen import checks, dialects, pipeline
from mlgen.documents import overrides
from mlgen.documents import resource_list as resourcelist
from mlgen.documents.files import Text
from mlgen.documents.reader import read_documents
from mlgen.documents.resource_list import Item, ResourceList
from mlgen.kubernetes import names, versions
from mlgen.kubernetes.objects import keys
from mlgen.output.resource_list import resource_list_text
from mlgen.problems import MlgenError, Place, Problem, did_you_mean, dotted
from mlgen.result import Options
from mlgen.variants import gitops

OPTIONS = ("for", "kube-version", "namespace", "set", "supervisor")
"""What the data of a ConfigMap may say: the options of the command line."""

Object = dict[str, Any]

Found = list[tuple[Item, Problem]]
"""What is wrong, and with which item."""


def krm(text: Text, options: Options) -> tuple[str, tuple[Problem, ...]]:
    """Return a ResourceList with manifests in the place of its jobs, and what is wrong.

    Args:
        text: a ResourceList. A job as its functionConfig is rendered too, and comes last.
        options: of the command line; a ConfigMap as functionConfig goes before them.

    Returns:
        The list with results. With an error, it has the items as they came; and where the text is
        no ResourceList, it is empty.
    """
    try:
        given = resourcelist.read(text)
    except MlgenError as error:
        return "", error.problems
    made, found = _made(given, options)
    problems = tuple(problem for _, problem in found)
    if any(not problem.warning for problem in problems):
        made = {}
    return resource_list_text(
        given, made, [_result(item, problem) for item, problem in found]
    ), problems


def _made(given: ResourceList, options: Options) -> tuple[dict[int, list[Object]], Found]:
    """The objects of each job, by its number among the items, and what is wrong."""
    config, found = given.config, Found()
    if config and _is_foreign(config):
        try:
            options = _options(config, options)
        except MlgenError as error:
            found += [(config, _at(config, problem)) for problem in error.problems]
    taken = {item.key for item in given.items if _is_foreign(item) and not item.local}
    made: dict[int, list[Object]] = {}
    for number, item in _jobs(given):
        try:
            result = pipeline.render([Text(item.origin, item.text)], options)
        except MlgenError as error:
            found += [(item, _at(item, problem)) for problem in error.problems]
            continue
        made[number] = [entry for job in result.jobs for entry in job.objects]
        problems = [*result.warnings, *checks.collisions(made[number], taken)]
        found += [(item, _at(item, problem)) for problem in problems]
        taken.update(keys(made[number]))
    return made, found


def _jobs(given: ResourceList) -> list[tuple[int, Item]]:
    """What is to be rendered; the functionConfig has the number after that of the last item."""
    config = given.config if given.config and not _is_foreign(given.config) else None
    jobs = [
        (number, item)
        for number, item in enumerate(given.items)
        if not _is_foreign(item) and not item.local and not (config and item.key == config.key)
    ]
    return [*jobs, (len(given.items), config)] if config else jobs


def _is_foreign(item: Item) -> bool:
    return dialects.is_foreign(item.version, item.kind)


def _at(item: Item, problem: Problem) -> Problem:
    """A problem with an item's place; its lines are those of a text that nobody has seen."""
    if problem.place and problem.place.file != item.origin:
        return problem
    return replace(problem, place=Place(item.origin, 0))


def _options(config: Item, options: Options) -> Options:
    """The options with those of a ConfigMap in their place.

    Raises:
        MlgenError: it is no ConfigMap, or has what is no option.
    """
    if (config.version, config.kind) != ("v1", "ConfigMap"):
        message = f"{config.version} {config.kind} cannot be a functionConfig"
        hint = "take a ConfigMap with options, a TrainingJob, or an operator's custom resource"
        raise MlgenError([Problem((), message, "unknown-kind", hint)])
    (document,) = read_documents(Text(config.origin, config.text))
    if isinstance(document, list):
        raise MlgenError(document)
    problems, data = list(document.problems), document.data.get("data") or {}
    if not isinstance(data, dict):
        raise MlgenError([Problem(("data",), "must be a mapping", "wrong-type")])
    for name, value in data.items():
        path = ("data", name)
        try:
            options = _with(options, name, str(document.texts.get(path, value)))
        except ValueError as error:
            problems.append(Problem(path, str(error), "bad-value"))
        except KeyError:
            hint = did_you_mean(name, OPTIONS) or f"known are: {', '.join(OPTIONS)}"
            problems.append(Problem(path, "there is no such option", "unknown-field", hint))
    if problems:
        raise MlgenError(problems)
    return options


def _with(options: Options, name: str, text: str) -> Options:
    """The options with one of a ConfigMap; a number or boolean is given as it was written.

    Raises:
        KeyError: there is none of that name.
        ValueError: it cannot have that value; the message says why.
    """
    if name == "kube-version":
        return replace(options, kube_version=versions.parse(text))
    if name == "for":
        return replace(options, target=gitops.target(text))
    if name == "namespace":
        return replace(options, namespace=names.namespace(text))
    if name == "set":
        lines = filter(None, map(str.strip, text.splitlines()))
        return replace(options, settings=(*options.settings, *map(overrides.parse, lines)))
    if name != "supervisor":
        raise KeyError(name)
    if text not in ("true", "false"):
        raise ValueError(f'"{text}" is neither true nor false')
    return replace(options, supervisor=text == "true")


def _result(item: Item, problem: Problem) -> Object:
    """A problem as kpt shows it: functions-spec.md, "results"."""
    bare = replace(problem, path=(), place=None, warning=False)
    found: Object = {
        "message": str(bare),
        "severity": "warning" if problem.warning else "error",
        "resourceRef": {"apiVersion": item.version, "kind": item.kind, "name": item.name},
    }
    if item.namespace:
        found["resourceRef"]["namespace"] = item.namespace
    if problem.path:
        found["field"] = {"path": dotted(problem.path)}
    if item.path:
        found["file"] = {"path": item.path}
    return found
