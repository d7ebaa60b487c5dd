"""The whole program: files in, manifests and warnings out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlgen import checks, emit, frameworks, job, objects, overrides, schema, source
from mlgen.problems import MlgenError, Path, Problem
from mlgen.topology import Topology

KUBE_VERSIONS = tuple((1, minor) for minor in range(31, 38))
"""The versions of Kubernetes for which manifests are rendered, oldest first."""

DEFAULT_KUBE_VERSION = (1, 34)


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says besides the files.

    Attributes:
        kube_version: of the cluster, as (major, minor), one of `KUBE_VERSIONS`.
        namespace: takes the place of the one in every job file.
        settings: values that take the place of those in every job file, by path.
    """

    kube_version: tuple[int, int] = DEFAULT_KUBE_VERSION
    namespace: str | None = None
    settings: tuple[tuple[Path, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Rendered:
    """One job: where it came from, how it is laid out, and its objects."""

    file: str
    topology: Topology
    objects: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Result:
    """All jobs of all files, in their order, and what the user should know."""

    jobs: tuple[Rendered, ...]
    warnings: tuple[Problem, ...]


def render(texts: Iterable[source.Text], options: Options) -> Result:
    """Render every job of every text.

    Raises:
        MlgenError: with every problem of every text, each with its place; nothing is rendered.
    """
    jobs: list[Rendered] = []
    problems: list[Problem] = []
    taken: set[checks.Key] = set()
    for text in texts:
        for document in source.documents(text):
            if isinstance(document, list):
                problems += document
                continue
            try:
                rendered, warnings = _rendered(text.name, document, options)
            except MlgenError as error:
                problems += error.problems
                continue
            problems += warnings
            problems += map(document.located, checks.collisions(rendered.objects, taken))
            taken.update(checks.keys(rendered.objects))
            jobs.append(rendered)
    if any(not problem.warning for problem in problems):
        raise MlgenError(problems)
    return Result(tuple(jobs), tuple(problems))


def _rendered(
    name: str, document: source.Document, options: Options
) -> tuple[Rendered, list[Problem]]:
    """One document, all the way to its objects; a problem is placed where its value stands."""
    for path, value in options.settings:
        try:
            document = overrides.apply(document, path, value)
        except ValueError as error:
            raise MlgenError([document.located(Problem(path, str(error), "bad-setting"))]) from None
    schema.require(document)
    asked = job.read(document.data, options.namespace)
    try:
        topology = frameworks.get(asked.framework).topology(asked)
        made = objects.build(topology)
        found = [
            *topology.warnings,
            *checks.problems(asked.name, made, options.kube_version),
        ]
        if any(not problem.warning for problem in found):
            raise MlgenError(found)
    except MlgenError as error:
        raise MlgenError(_located(document, problem) for problem in error.problems) from None
    rendered = Rendered(name, topology, tuple(made))
    return rendered, [_located(document, problem) for problem in found]


def _located(document: source.Document, problem: Problem) -> Problem:
    """A problem with its place; of a role that only we know (`rank`), it is said of all roles."""
    if problem.path[:2] == ROLES and problem.path[:3] not in document.places:
        problem = replace(problem, path=ROLES)
    return document.located(problem)


ROLES: Path = ("spec", "roles")


def text(jobs: Sequence[Rendered], form: str) -> str:
    """Return the manifests as text, `yaml` or `json`."""
    sets = [(summary(rendered.topology), rendered.objects) for rendered in jobs]
    return emit.json_text(sets) if form == "json" else emit.yaml_text(sets)


def summary(topology: Topology) -> str:
    """Return a few lines that say what a job consists of, for the head of its manifests."""
    asked = topology.job
    pods = sum(role.replicas for role in topology.roles)
    lines = [
        f"{asked.name}: {asked.framework}, {pods} pod{'s' if pods > 1 else ''}. Made by mlgen."
    ]
    width = max(len(role.name) for role in topology.roles)
    seen: dict[tuple[str, str, str], int] = {}
    for role in topology.roles:
        kind = "StatefulSet" if role.serves else "Job" if role.index is None else "Jobs"
        peers = dict.fromkeys(wait.role for wait in role.waits)
        words = [f"waits for {', '.join(peers)}"] if peers else []
        words = ["decides when training has ended", *words] if role.decides else words
        key = (role.name, kind, ", ".join(words))
        seen[key] = seen.get(key, 0) + role.replicas
    for (name, kind, does), replicas in seen.items():
        lines.append(f"  {name:{width}}  {replicas} in {kind:11}  {does}".rstrip())
    return "\n".join(lines)
