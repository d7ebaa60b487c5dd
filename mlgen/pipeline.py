"""The walk from texts to objects: every room in turn, and nothing else."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from mlgen import checks, dialects, frameworks, objects
from mlgen.bounds import OBJECTS_AT_ONCE
from mlgen.checks import prerequisites
from mlgen.documents.document import Document
from mlgen.documents.files import Text
from mlgen.jobfile.model import TrainingJob
from mlgen.jobfile.parser import training_job
from mlgen.kubernetes.objects import Identities, Key, Object, keys
from mlgen.problems import Collector, MlgenError, Problem, ValuePath
from mlgen.result import Foreign, Options, Rendered, Result
from mlgen.topology import Topology

if TYPE_CHECKING:
    from mlgen.variants.matrix import Combination

ROLES: ValuePath = ("spec", "roles")


def render(texts: Iterable[Text], options: Options) -> Result:
    """Render every job of every text.

    Raises:
        MlgenError: with every problem of every text, each with its place; nothing is rendered.
    """
    result = attempt(texts, options)
    if result.errors:
        raise MlgenError(result.problems)
    return result


def attempt(texts: Iterable[Text], options: Options) -> Result:
    """Render every job that is valid, and return it with the problems of all the others."""
    parts: list[Rendered | Foreign] = []
    collector = Collector()
    taken: set[Key] = set()
    invalid = 0
    for text in texts:
        documents = list(dialects.documents(text))
        invalid += sum(isinstance(document, Document) for document in documents)
        for group in _rendered(text.name, documents, options, collector, taken):
            invalid -= 1
            parts += group
    collector.extend(_not_run([part.document for part in parts if isinstance(part, Foreign)]))
    return Result(tuple(_with_prerequisites(parts)), collector.problems, invalid)


def _not_run(documents: list[Document]) -> Iterable[Problem]:
    """Return warnings about other objects; most streams have none."""
    if not documents:
        return ()
    from mlgen.checks.passthrough import not_run, trainings

    return not_run([trainings(document) for document in documents])


def _with_prerequisites(parts: Sequence[Rendered | Foreign]) -> Iterator[Rendered | Foreign]:
    """Return each part; a job with what it needs and no other part brings."""
    brought = prerequisites.brought(item for part in parts for item in part.objects)
    together = Identities(brought)
    for part in parts:
        if isinstance(part, Rendered):
            named = prerequisites.named(part.objects)
            yield replace(part, prerequisites=prerequisites.missing(named, together))
        else:
            yield part


def render_documents(
    name: str,
    documents: Iterable[Document | list[Problem]],
    options: Options,
    collector: Collector,
    taken: set[Key],
) -> Iterator[Rendered | Foreign]:
    """Render the documents of one text, one after the other.

    Args:
        name: of the text.
        documents: of the text; for one that cannot be read, its problems.
        options: of the command line.
        collector: collects every problem.
        taken: identities of the objects so far; those of this text are added.
    """
    for parts in _rendered(name, documents, options, collector, taken):
        yield from parts


def _rendered(
    name: str,
    documents: Iterable[Document | list[Problem]],
    options: Options,
    collector: Collector,
    taken: set[Key],
) -> Iterator[Sequence[Rendered | Foreign]]:
    """Return the parts of each document that can be rendered; see `render_documents`."""
    if len(taken) > OBJECTS_AT_ONCE:  # reported already
        return
    render_one = partial(render_document, options=options)
    for document, parts in dialects.each_document(name, documents, render_one, collector):
        collisions: list[Problem] = []
        for part in parts:
            identities = keys(part.objects)
            collisions += map(document.located, checks.collisions(identities, taken))
            taken.update(identities)
        collector.extend(collisions)
        if len(taken) > OBJECTS_AT_ONCE:
            collector.add(document.located(too_many(OBJECTS_AT_ONCE)))
            return
        if not collisions:
            yield parts


def too_many(limit: int) -> Problem:
    """Return the problem of the job with which a command renders more objects than it can."""
    message = f"the jobs up to this one have more than {limit:,} objects"
    return Problem(("metadata", "name"), message, "too-large", "render fewer jobs at a time")


def render_document(
    name: str, document: Document, options: Options
) -> tuple[Sequence[Rendered | Foreign], list[Problem]]:
    """Return the jobs of a document, or another object unchanged; and the warnings.

    Raises:
        MlgenError: with every problem of the document.
    """
    native, warnings = dialects.native(document)
    if native is None:
        if options.only_jobs:
            raise MlgenError([document.located(checks.foreign(document.data["kind"]))])
        return [Foreign(document)], []
    rendered, more = _render_jobs(name, native, options)
    return rendered, warnings + more


def _render_jobs(
    name: str, document: Document, options: Options
) -> tuple[list[Rendered], list[Problem]]:
    """Render one TrainingJob document: a job, or one for each combination of its matrix."""
    document = _overridden(document, options)
    spec = document.data.get("spec")
    if options.matrix or (isinstance(spec, dict) and "matrix" in spec):
        return _render_combinations(name, document, options)
    job, problems = _render_job(name, document, options)
    return [job], problems


def _render_combinations(
    name: str, document: Document, options: Options
) -> tuple[list[Rendered], list[Problem]]:
    """Render a job for each combination of a matrix."""
    from mlgen.variants import matrix

    document, combinations, warnings = matrix.expanded(document, options.matrix)
    jobs: list[Rendered] = []
    problems: list[tuple[Combination | None, Problem]] = []
    for combination in combinations:
        if len(jobs) == 1:
            _require_small(document, len(combinations), jobs[0])
        try:
            one = matrix.applied(document, combination)
            job, more = _render_job(name, one, options, combination)
            jobs.append(job)
        except MlgenError as error:
            more = list(error.problems)
        problems += ((combination, problem) for problem in more)
    collector = Collector([*warnings, *matrix.distinct(problems)])
    collector.raise_errors()
    sets = matrix.with_shared_claims([job.objects for job in jobs])
    together = zip(jobs, sets, strict=True)
    return [replace(job, objects=tuple(items)) for job, items in together], [*collector.problems]


def _require_small(document: Document, count: int, job: Rendered) -> None:
    """Check that so many combinations like this one are not too large together."""
    try:
        objects.size.require_combinations(count, job.objects)
    except MlgenError as error:
        raise MlgenError(_located(document, error.problems)) from None


def _render_job(
    name: str, document: Document, options: Options, combination: "Combination | None" = None
) -> tuple[Rendered, list[Problem]]:
    """Render one job; every problem gets the place of its value."""
    document = options.site.fill(document) if options.site else document
    document, deprecations = frameworks.validate(document, options.kube_version)
    namespace = document.data["metadata"].get("namespace")
    job = training_job(
        document.data,
        options.namespace or namespace or options.default_namespace,
        supervisor=options.supervisor,
        converted=document.converted,
    )
    job = frameworks.without_idle_gpus(job)
    if combination:
        job = replace(job, part_of=combination.base)
    try:
        job, topology, manifests = _built(job, options)
        collector = Collector(topology.warnings)
        settings: list[str] = []
        if options.target:
            from mlgen.variants import gitops

            collector.extend(gitops.warnings(job, topology, options.target))
            manifests = gitops.adapted(topology, manifests, options.target)
            settings = gitops.settings(topology, manifests, options.target)
        found = checks.job_problems(job.name, manifests, options.kube_version, document.data)
        collector.extend(found)
        if job.security.profile:
            profile = job.security.profile
            collector.extend(checks.profile(profile, manifests, options.kube_version))
        collector.raise_errors()
    except MlgenError as error:
        raise MlgenError(deprecations + _located(document, error.problems)) from None
    rendered = Rendered(
        name,
        document,
        job,
        options.kube_version,
        topology,
        tuple(manifests),
        settings=tuple(settings),
        combination=combination,
    )
    return rendered, deprecations + _located(document, collector.problems)


def _overridden(document: Document, options: Options) -> Document:
    """Return the document with the values of `--set`."""
    if not options.settings:
        return document
    from mlgen.documents import overrides

    for path, value in options.settings:
        try:
            document = overrides.apply(document, path, value)
        except ValueError as error:
            raise MlgenError([document.located(Problem(path, str(error), "bad-setting"))]) from None
    return document


def _built(job: TrainingJob, options: Options) -> tuple[TrainingJob, Topology, list[Object]]:
    """Return the job under its final name, its topology and its objects."""
    if job.name_suffix is not None:
        from mlgen.variants import name_hash

        # The hash must not depend on who runs the job.
        plain = _topology(job, replace(options, workflow=False))
        job = name_hash.renamed(plain, objects.build(plain, options.kube_version))
    topology = _topology(job, options)
    manifests = objects.build(topology, options.kube_version)
    if job.part_of:
        from mlgen.variants import name_hash

        manifests = name_hash.in_addresses(topology, manifests)
    return job, topology, manifests


def _topology(job: TrainingJob, options: Options) -> Topology:
    """Lay a job out, without the policies that a workflow or a GitOps tool takes over."""
    framework = frameworks.get(job.framework)
    if options.workflow:
        from mlgen.variants import workflow

        return workflow.with_workflow_restarts(framework.topology(workflow.without_policies(job)))
    if options.target:
        from mlgen.variants import gitops

        job = gitops.without_policies(job)
    return framework.topology(job)


def _located(document: Document, problems: Iterable[Problem]) -> list[Problem]:
    """Return each problem once, with its place."""
    return list(dict.fromkeys(document.located(_in_file(document, p)) for p in problems))


def _in_file(document: Document, problem: Problem) -> Problem:
    """Return a problem by a path that the job file has.

    A field of a role may be written in `spec`, for all roles. And the job file does not have a role
    that a framework made of others (`rank`), so the problem is one of all roles.
    """
    path = problem.path
    everyone = (*path[:1], *path[3:])
    if path[:2] == ROLES and path not in document.places and everyone in document.places:
        return replace(problem, path=everyone if len(path) > len(ROLES) + 1 else path)
    if path[:2] == ROLES and path[:3] not in document.places:
        return replace(problem, path=ROLES)
    return problem
