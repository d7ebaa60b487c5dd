"""One document → its jobs with their objects, or the same object, and the problems."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mlgen import checks, dialects, frameworks, objects
from mlgen.checks.files import shared_outputs
from mlgen.checks.other_documents import is_own, own_service
from mlgen.checks.pods import Objects
from mlgen.documents.document import Document
from mlgen.documents.flags import ROLES
from mlgen.input_limits import FAILED_BYTES
from mlgen.jobfile.model import TrainingJob
from mlgen.jobfile.parser import origin, training_job
from mlgen.jobfile.validation import invalid_excuses, unexcused
from mlgen.kubernetes.objects import Object
from mlgen.objects.labels import is_rendered_jobset
from mlgen.problems import Collector, MlgenError, Problem, ValuePath, limited_hints
from mlgen.result import Foreign, Options, Rendered
from mlgen.topology import Topology
from mlgen.variants import Target, reapply

if TYPE_CHECKING:
    from mlgen.variants.matrix import Combination


@limited_hints()
def render_document(
    name: str, document: Document, options: Options
) -> tuple[Sequence[Rendered | Foreign], list[Problem]]:
    """Return the jobs of a document, or another object unchanged, and the warnings.

    Raises:
        MlgenError: the document has errors; lists all problems.
    """
    native, warnings = admitted(document, options)
    if native is None:
        is_part = dialects.is_part(document)
        replaced = own_service(document) if is_own(document) else None
        if replaced:
            return [], [replaced]
        return [] if is_part else [Foreign(document)], warnings
    rendered, more = _render_jobs(name, native, options)
    return rendered, [*unexcused(native, warnings), *more]


def admitted(document: Document, options: Options) -> tuple[Document | None, list[Problem]]:
    """Return the TrainingJob of a document, or None for another object, and the warnings.

    Every document that mlgen renders or converts passes this function.

    Raises:
        MlgenError: the document has errors, or `only_jobs` rejects it.
    """
    native, warnings = (None, []) if _is_finished(document, options) else dialects.native(document)
    if native is None and options.only_jobs and not dialects.is_part(document):
        raise MlgenError([document.located(checks.foreign(document.data["kind"]))])
    return native, warnings


def _is_finished(document: Document, options: Options) -> bool:
    """Return True for a JobSet that is already rendered, with `--as jobset`."""
    return options.jobset and is_rendered_jobset(document.data)


PROBLEM_BYTES = 4_000
"""The size of a part of a document that takes as much time as a problem with its hint."""


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
    room = FAILED_BYTES
    for combination in combinations:
        if len(jobs) == 1:
            _require_small(document, len(combinations), jobs[0])
        try:
            one = matrix.applied(document, combination)
            job, more = _render_job(name, one, options, combination)
            jobs.append(job)
        except MlgenError as error:
            more = list(error.problems)
            room -= objects.bytes_of([document.data]) + PROBLEM_BYTES * len(more)
        problems += ((combination, problem) for problem in more)
        if room < 0:
            warnings.append(_unchecked(document))
            break
    collector = Collector([*warnings, *matrix.distinct(problems)])
    collector.raise_errors()
    document = jobs[0].document
    items = [Objects(job.job.name, job.objects, alike=True) for job in jobs]
    outputs = _located(document, shared_outputs(items, document.data))
    collector.extend(unexcused(document, outputs))
    sets = matrix.with_shared_claims([job.objects for job in jobs])
    together = zip(jobs, sets, strict=True)
    return [replace(job, objects=tuple(items)) for job, items in together], [*collector.problems]


def _unchecked(document: Document) -> Problem:
    """Return the error of combinations that are not checked, because many others have errors."""
    message = "many combinations have errors; the others are not checked"
    return document.located(Problem(("spec",), message, "too-large", "fix these first"))


def _require_small(document: Document, count: int, job: Rendered) -> None:
    """Check that all combinations together are not too large, from the size of one of them."""
    try:
        objects.require_combinations(count, job.objects)
    except MlgenError as error:
        raise MlgenError(_located(document, error.problems)) from None


def _render_job(
    name: str, document: Document, options: Options, combination: "Combination | None" = None
) -> tuple[Rendered, list[Problem]]:
    """Render one job, and add the location of its value to each problem."""
    document = options.site.fill(document) if options.site else document
    document, deprecations = frameworks.validate(document, options.kube_version)
    namespace = document.data["metadata"].get("namespace")
    job = training_job(
        document.data,
        options.namespace or namespace or options.default_namespace,
        supervisor=options.supervisor,
        converted=document.converted,
        unwritten=_unwritten(document),
    )
    job = frameworks.without_idle_gpus(job)
    if combination:
        job = job._replace(part_of=combination.base)
    target, collector = _target(options), Collector(invalid_excuses(document))
    with collector.catch():
        job, topology, manifests = _built(job, target, options, collector, document.data["spec"])
        job_problems = checks.job_problems(
            job.name, manifests, options.kube_version, document.data, jobset=job.jobset
        )
        collector.extend(_independent(job_problems, topology.problems))
        if job.security.profile:
            profile = job.security.profile
            collector.extend(checks.profile(profile, manifests, options.kube_version))
    collector = Collector(
        unexcused(document, deprecations + _located(document, collector.problems))
    )
    collector.raise_errors()
    manifests = target.objects(topology, manifests)
    collector.extend(_located(document, target.problems(topology, manifests)))
    collector.raise_errors()
    rendered = Rendered(
        name,
        document,
        job,
        options.kube_version,
        topology,
        tuple(manifests),
        settings=tuple(target.settings(topology, manifests)),
        reapply="" if options.target else reapply(topology),
        combination=combination,
    )
    return rendered, [*collector.problems]


def _unwritten(document: Document) -> list[str]:
    """Return the roles of a custom resource whose restart policy is the operator's default."""
    roles = document.data["spec"]["roles"] if document.converted else ()
    paths = {role: (*ROLES, role, "restartPolicy") for role in roles}
    places = document.places
    return [r for r, path in paths.items() if not {path, (path[0], path[3])} & places.keys()]


def _independent(problems: Iterable[Problem], earlier: Iterable[Problem]) -> list[Problem]:
    """Return the problems of objects that are not only consequences of earlier errors.

    A contradiction between fields can make the objects inconsistent. Only problems of other values
    that the job file contains are then reported. Errors in command lines do not change objects.
    """
    wrong = [each.path for each in earlier if not each.warning and each.code != "launch"]

    def is_independent(path: ValuePath) -> bool:
        of_role = len(path) <= len(ROLES) + 1 and path[: len(ROLES)] == ROLES
        return not (of_role or any(path[: len(p)] == p or p[: len(path)] == path for p in wrong))

    return [each for each in problems if not wrong or is_independent(each.path)]


def _overridden(document: Document, options: Options) -> Document:
    """Return the document with the values of `--set`."""
    if not options.settings:
        return document
    from mlgen.documents import overrides

    draft = overrides.Draft(document)
    for path, value in options.settings:
        try:
            draft.set(path, value)
        except ValueError as error:
            problem = Problem(path, str(error), "bad-setting")
            raise MlgenError([draft.document.located(problem)]) from None
    return draft.document


def _target(options: Options) -> Target:
    """Return what runs or applies the jobs."""
    if options.workflow:
        from mlgen.variants.workflow import Workflow

        return Workflow()
    if options.jobset:
        from mlgen.variants.jobset import JobSet

        return JobSet()
    if options.target:
        from mlgen.variants.gitops import GitOps

        return GitOps(options.target)
    return Target()


def _built(
    job: TrainingJob, target: Target, options: Options, collector: Collector, spec: dict[str, Any]
) -> tuple[TrainingJob, Topology, list[Object]]:
    """Return the job under its final name, its topology and its objects.

    Problems of the topology are added to the collector, and its objects are built nevertheless, so
    that their problems are reported as well.
    """
    lay_out = frameworks.get(job.framework).topology

    def topology_of(target: Target) -> Topology:
        topology = target.topology(lay_out(target.job(job)), job, spec)
        if not any(role.decides for role in topology.roles):
            Collector(topology.problems).raise_errors()  # there is no complete set of roles
        return topology

    def built(topology: Topology) -> list[Object]:
        try:
            return objects.build(topology, options.kube_version)
        except MlgenError as error:
            raise MlgenError([*topology.problems, *error.problems]) from None

    if job.name_suffix is not None:
        from mlgen.variants import name_hash

        # Host ports depend on the final name, so the hash is one of objects under the plain name.
        # It must not depend on whether a workflow runs the job.
        plain = topology_of(Target() if options.workflow else target)
        job = name_hash.renamed(job, plain, built(plain))
    topology = topology_of(target)
    manifests = built(topology)
    collector.extend(topology.problems)
    if job.part_of or topology.job.jobset:
        from mlgen.variants import name_hash

        manifests = name_hash.in_addresses(topology, manifests)
    return job, topology, manifests


def _located(document: Document, problems: Iterable[Problem]) -> list[Problem]:
    """Return each problem once, with its location."""
    found = (replace(each, path=origin(document.data, each.path)) for each in problems)
    return list(dict.fromkeys(map(document.located, found)))
