"""The whole program: files in, manifests and warnings out."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mlgen import (
    checks,
    dialects,
    emit,
    frameworks,
    gitops,
    job,
    objects,
    overrides,
    schema,
    source,
    suffix,
    workflow,
)
from mlgen.podsecurity import LEVELS, level
from mlgen.problems import MlgenError, Path, Problem
from mlgen.topology import Role, Topology, supervised

KUBE_VERSIONS = tuple((1, minor) for minor in range(31, 38))
"""The versions of Kubernetes for which manifests are rendered, oldest first."""

DEFAULT_KUBE_VERSION = (1, 34)


def kube_version(text: str) -> tuple[int, int]:
    """Read a version of Kubernetes such as `1.34`, `v1.34.4` or `v1.34.4+k3s1`.

    Raises:
        ValueError: manifests are not rendered for it; the message says for which they are.
    """
    parts = text.removeprefix("v").split(".")
    version = tuple(int(part) if part.isdecimal() else -1 for part in parts[:2])
    if version in KUBE_VERSIONS:
        return version
    first, last = (".".join(map(str, KUBE_VERSIONS[i])) for i in (0, -1))
    raise ValueError(f"{text} is not a version from {first} to {last}")


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says besides the files.

    Attributes:
        kube_version: of the cluster, as (major, minor), one of `KUBE_VERSIONS`.
        namespace: takes the place of the one in every job file.
        settings: values that take the place of those in every job file, by path; of a custom
            resource, in the job file that it stands for.
        supervisor: whether a Job may end what outlives the training.
        workflow: each job is run by a workflow, which starts it again, ends and removes it.
        target: the tool that brings back what stands in Git, if one does.
        default_namespace: that of a job file which has none.
    """

    kube_version: tuple[int, int] = DEFAULT_KUBE_VERSION
    namespace: str | None = None
    settings: tuple[tuple[Path, Any], ...] = ()
    supervisor: bool = True
    workflow: bool = False
    target: gitops.Target | None = None
    default_namespace: str | None = None


@dataclass(frozen=True, slots=True)
class Rendered:
    """One job: where it came from, for which cluster, how it is laid out, and its objects.

    Attributes:
        asked: the job with all of its policies; `topology` is without those of a workflow.
    """

    file: str
    document: source.Document
    asked: job.Job
    kube_version: tuple[int, int]
    topology: Topology
    objects: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Foreign:
    """An object beside the jobs, such as a ConfigMap, which stays as it was written."""

    document: source.Document


@dataclass(frozen=True, slots=True)
class Result:
    """All jobs and other objects of all files, in their order, and what the user should know."""

    parts: tuple[Rendered | Foreign, ...]
    warnings: tuple[Problem, ...]

    @property
    def jobs(self) -> list[Rendered]:
        """The jobs alone."""
        return [part for part in self.parts if isinstance(part, Rendered)]


def render(texts: Iterable[source.Text], options: Options) -> Result:
    """Render every job of every text.

    Raises:
        MlgenError: with every problem of every text, each with its place; nothing is rendered.
    """
    parts: list[Rendered | Foreign] = []
    problems: list[Problem] = []
    taken: set[checks.Key] = set()
    for text in texts:
        parts += each(text.name, dialects.documents(text), options, problems, taken)
    if any(not problem.warning for problem in problems):
        raise MlgenError(problems)
    return Result(tuple(parts), tuple(problems))


def each(
    name: str,
    documents: Iterable[source.Document | list[Problem]],
    options: Options,
    problems: list[Problem],
    taken: set[checks.Key],
) -> Iterator[Rendered | Foreign]:
    """Render the documents of one text, one after the other.

    Args:
        name: of the text.
        documents: the text's, or in the place of one its problems.
        options: of the command line.
        problems: is added to.
        taken: what other jobs make and other objects are; is added to.
    """
    make = partial(_part, options=options)
    for document, part in dialects.made(name, documents, make, problems):
        objects = part.objects if isinstance(part, Rendered) else [part.document.data]
        problems += map(document.located, checks.collisions(objects, taken))
        taken.update(checks.keys(objects))
        yield part


def _part(
    name: str, document: source.Document, options: Options
) -> tuple[Rendered | Foreign, list[Problem]]:
    """One document: a job all the way to its objects, or another object as it is."""
    native, warnings = dialects.native(document)
    if native is None:
        return Foreign(document), []
    rendered, found = _rendered(name, native, options)
    return rendered, warnings + found


def _rendered(
    name: str, document: source.Document, options: Options
) -> tuple[Rendered, list[Problem]]:
    """One TrainingJob; a problem is placed where its value stands."""
    for path, value in options.settings:
        try:
            document = overrides.apply(document, path, value)
        except ValueError as error:
            raise MlgenError([document.located(Problem(path, str(error), "bad-setting"))]) from None
    schema.require(document)
    own = document.data["metadata"].get("namespace")
    namespace = options.namespace or own or options.default_namespace
    asked = job.read(document.data, namespace, supervisor=options.supervisor)
    try:
        asked, topology, made = _built(asked, options)
        found = list(topology.warnings)
        if options.target:
            found += gitops.warnings(asked, topology, options.target)
            made = gitops.adapted(topology, made, options.target)
        found += checks.problems(asked.name, made, options.kube_version)
        if asked.security.profile:
            found += checks.profile(asked.security.profile, made, options.kube_version)
        if any(not problem.warning for problem in found):
            raise MlgenError(found)
    except MlgenError as error:
        problems = dict.fromkeys(_located(document, problem) for problem in error.problems)
        raise MlgenError(problems) from None
    rendered = Rendered(name, document, asked, options.kube_version, topology, tuple(made))
    return rendered, list(dict.fromkeys(_located(document, problem) for problem in found))


def _built(asked: job.Job, options: Options) -> tuple[job.Job, Topology, list[dict[str, Any]]]:
    """A job under the name that it ends up with, how it is laid out, and its objects."""
    if asked.name_suffix is None:
        topology = _topology(asked, options)
        return asked, topology, objects.build(topology)
    # By whatever the job is run, its name is the same.
    plain = _topology(asked, replace(options, workflow=False))
    asked = suffix.suffixed(plain, objects.build(plain))
    topology = _topology(asked, options)
    return asked, topology, suffix.in_addresses(topology, objects.build(topology))


def _topology(asked: job.Job, options: Options) -> Topology:
    """A job as its framework lays it out; what a workflow does for it is left to that."""
    framework = frameworks.get(asked.framework)
    if options.workflow:
        return workflow.restarts(framework.topology(workflow.without_policies(asked)))
    return framework.topology(gitops.without_policies(asked) if options.target else asked)


def _located(document: source.Document, problem: Problem) -> Problem:
    """A problem with its place.

    What is wrong with a role may stand in `spec`, for all roles; and of a role that only we know
    (`rank`), it is said of all roles.
    """
    path = problem.path
    everyone = (*path[:1], *path[3:])
    if path[:2] == ROLES and path not in document.places and everyone in document.places:
        problem = replace(problem, path=everyone if len(path) > len(ROLES) + 1 else path)
    elif path[:2] == ROLES and path[:3] not in document.places:
        problem = replace(problem, path=ROLES)
    return document.located(problem)


ROLES: Path = ("spec", "roles")


def text(parts: Iterable[Rendered | Foreign], form: str) -> str:
    """Return the manifests as text, `yaml` or `json`."""
    if form == "json":
        found = [p.objects if isinstance(p, Rendered) else [p.document.data] for p in parts]
        return emit.json_text([item for objects in found for item in objects])
    return "".join(
        emit.yaml_text(part.objects, summary(part.topology))
        if isinstance(part, Rendered)
        else emit.verbatim(part.document.text, part.document.data)
        for part in parts
    )


def summary(topology: Topology) -> str:
    """Return a few lines that say what a job consists of, for the head of its manifests."""
    asked = topology.job
    pods = sum(role.replicas for role in topology.roles)
    lines = [
        f"{asked.name}: {asked.framework}, {pods} pod{'s' if pods > 1 else ''}. Made by mlgen."
    ]
    seen: dict[tuple[str, str, str], int] = {}
    for role in topology.roles:
        kind = f"{'StatefulSet' if role.serves else 'Job'}{'' if role.index is None else 's'}"
        key = (role.name, kind, _does(role))
        seen[key] = seen.get(key, 0) + role.replicas
    if asked.tensorboard:
        seen["tensorboard", "Deployment", ""] = 1
    if supervised(asked, topology.roles):
        seen["supervisor", "Job", "ends the others when training has ended"] = 1
    width = max(len(name) for name, _, _ in seen)
    for (name, kind, does), replicas in seen.items():
        lines.append(f"  {name:{width}}  {replicas} in {kind:11}  {does}".rstrip())
    return "\n".join(lines)


def _does(role: Role) -> str:
    """What a reader wants to know of a role: whether it decides, and what it waits for."""
    words = ["decides when training has ended"] if role.decides else []
    peers = dict.fromkeys(w.role for w in role.waits if w.role != role.name or role.replicas > 1)
    return ", ".join([*words, *([f"waits for {', '.join(peers)}"] if peers else [])])


def pod_security(rendered: Rendered) -> str:
    """Return the strictest PodSecurity level that all pods meet, and what the next one wants."""
    found = checks.obstacles(rendered.objects, rendered.kube_version)
    met = level(found)
    lines = [f"  PodSecurity: {met}"]
    for violation, roles in found.items():
        if LEVELS.index(violation.level) == LEVELS.index(met) + 1:
            what = f"{violation.field} {violation.message}"
            lines.append(f"    {violation.level}: {what} ({', '.join(roles)})")
    return "\n".join(lines)
