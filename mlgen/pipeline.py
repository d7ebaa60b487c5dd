"""The pipeline from texts to objects, which calls each package in turn."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from mlgen import checks, dialects, frameworks, objects
from mlgen.bounds import BYTES, FAILED_BYTES, KEPT_BYTES, OBJECTS_AT_ONCE, PROBLEMS_OF_COMMAND
from mlgen.checks import prerequisites
from mlgen.checks.files import shared_outputs
from mlgen.checks.other_documents import (
    Facts,
    across,
    facts_of,
    facts_of_job,
    is_own,
    own_service,
    same_object,
)
from mlgen.checks.pods import Objects
from mlgen.checks.prerequisites import Prerequisite
from mlgen.documents.document import Document
from mlgen.documents.files import Text
from mlgen.jobfile.excuses import invalid_excuses, unexcused
from mlgen.jobfile.model import TrainingJob
from mlgen.jobfile.parser import ROLES, origin, training_job
from mlgen.kubernetes.objects import Identities, Key, Object, keys, memory
from mlgen.objects.labels import is_rendered_jobset
from mlgen.problems import Collector, MlgenError, Problem, ValuePath, limited_hints, severe
from mlgen.result import Foreign, Options, Rendered, Result
from mlgen.topology import Topology
from mlgen.variants import reapply

if TYPE_CHECKING:
    from mlgen.variants.matrix import Combination

DOCUMENT_FACTOR = 4
"""The memory of a document, with the places of its values, divided by the memory of its data."""


def render(texts: Iterable[Text], options: Options) -> Result:
    """Render all jobs in texts.

    Raises:
        MlgenError: there are errors; lists all problems with their locations.
    """
    result = attempt(texts, options)
    if result.errors:
        raise MlgenError(result.problems)
    return result


def attempt(texts: Iterable[Text], options: Options) -> Result:
    """Render all valid jobs, and return them with all problems."""
    walk = Walk(strict=options.strict)
    parts: list[Part] = []
    kept, counted = 0, set[int]()
    for of_document in render_texts(texts, options, walk):
        parts += of_document
        for part in of_document:
            document = part.content.document
            kept += memory(part.content.objects, counted)
            kept += DOCUMENT_FACTOR * memory(document.data, counted)
            if kept > KEPT_BYTES:
                walk.fill([document.located(too_much_memory())])
                break
    walk.finish()
    return Result(tuple(map(walk.with_prerequisites, parts)), tuple(walk.problems), walk.invalid)


def render_texts(texts: Iterable[Text], options: Options, walk: "Walk") -> Iterator[list["Part"]]:
    """Yield the parts of each document of the texts, until the walk is full."""
    for text in dialects.in_context(texts):
        for document in dialects.documents(text):
            if walk.is_full:
                return
            yield [*render_documents(text.name, [document], options, walk)]


def render_documents(
    name: str, documents: Iterable[Document | list[Problem]], options: Options, walk: "Walk"
) -> Iterator["Part"]:
    """Yield the parts of the documents of one text in order, and add them to a walk.

    Args:
        name: the name of the text.
        documents: the text's documents; problems in place of a document that cannot be read, or of
            an AppWrapper.
        options: the options of the command line.
        walk: the walk with the earlier documents.
    """
    for document in documents:
        if walk.is_full:
            return
        if isinstance(document, list):
            walk.problems += severe(document, strict=options.strict)
            continue
        yield from walk.add(outcome(name, document, options), partial(_located, document))


class Part(NamedTuple):
    """The data of a job, or of another object, that is kept after rendering."""

    kind: str
    """The kind of another object; "" for a job."""
    keys: Sequence[Key]
    """The identities of its objects."""
    brought: Sequence[Key]
    """The identities that it provides in addition, such as the items of a List."""
    needs: Sequence[Prerequisite]
    """The objects that it refers to."""
    facts: Facts
    content: Any
    """The part itself, or the result of the argument `content` of `outcome`."""
    replaced: Problem | None = None
    """The warning if a job in the input has this headless Service, which is then left out."""


class Outcome(NamedTuple):
    """The result of rendering a document."""

    problems: Sequence[Problem]
    parts: Sequence[Part] = ()
    invalid: bool = False
    """True if the document could be read, but not rendered."""


def outcome(
    name: str,
    document: Document,
    options: Options,
    content: Callable[[Rendered | Foreign], Any] = lambda part: part,
    *,
    needs: bool = True,
) -> Outcome:
    """Render a document of a text, and return the outcome.

    Args:
        name: the name of the text.
        document: the document.
        options: the options of the command line.
        content: returns the data of a part to keep.
        needs: True to find the prerequisites of jobs.
    """
    try:
        parts, problems = render_document(name, document, options)
    except MlgenError as error:
        return Outcome(severe(error.problems, strict=options.strict), invalid=True)
    if problems and options.strict:
        return Outcome(severe(problems, strict=True), invalid=True)
    return Outcome(problems, [_part(each, content(each), needs=needs) for each in parts])


def _part(part: Rendered | Foreign, content: Any, *, needs: bool) -> Part:
    identities = keys(part.objects)
    own = {*identities}
    brought = [key for key in prerequisites.brought(part.objects) if key not in own]
    if isinstance(part, Foreign):
        kind, facts = part.document.data["kind"], facts_of(part.document)
        replaced = own_service(part.document)
        return Part(kind, identities, brought, (), facts, content, replaced)
    named = prerequisites.named(part.objects) if needs else ()
    facts = facts_of_job(part.job.name, part.objects, part.document)
    return Part("", identities, brought, named, facts, content)


class Walk:
    """The outcomes of documents in order, and the problems that depend on several documents.

    Args:
        limit: the maximum number of objects that one command renders.
        strict: True if warnings are errors.

    Attributes:
        problems: the problems in the order of reporting.
        jobs: the number of rendered jobs.
        invalid: the number of documents that could not be rendered.
        others: the kind of each other object.
        is_full: True if a limit of one command is reached.
    """

    def __init__(self, limit: int | None = None, *, strict: bool = False) -> None:
        self._limit = limit or OBJECTS_AT_ONCE
        self._strict = strict
        self.problems: list[Problem] = []
        self.jobs = self.invalid = self._objects = 0
        self.is_full = False
        self.others: list[str] = []
        self._taken, self._brought = Identities(), Identities()
        self._services: dict[str, set[str]] = {}
        self._facts: list[Facts] = []

    def reserve(self, identities: Iterable[Key]) -> None:
        """Add the identities of objects that no job may have."""
        self._taken.update(identities)

    def fill(self, problems: Iterable[Problem]) -> None:
        """Add the problems of reaching a limit. No further document is added."""
        self.problems += problems
        self.is_full = True

    @property
    def has_errors(self) -> bool:
        """True if a problem prevents rendering."""
        return any(not problem.warning for problem in self.problems)

    def add(
        self, outcome: Outcome, located: Callable[[Sequence[Problem]], list[Problem]]
    ) -> Sequence[Part]:
        """Add the outcome of a document, and return its parts unless they collide with others.

        Args:
            outcome: the document's outcome.
            located: returns problems with their locations in the document.
        """
        if self.is_full:
            return ()
        self.problems += outcome.problems
        if len(self.problems) > PROBLEMS_OF_COMMAND:
            self.fill([too_many_problems()])
        errors: list[Problem] = []
        parts = [part for part in outcome.parts if not self._has_service(part)]
        for part in parts:
            fix = ("rename this object, because a job has an object of this name",)
            errors += checks.collisions(part.keys, self._taken, *(fix if part.kind else ()))
            self._taken.update(part.keys)
            self._objects += len(part.keys)
        if self._objects > self._limit:
            self.is_full = True
            errors.append(too_many(self._limit))
        if errors:
            self.problems += located(errors)
        if errors or outcome.invalid:
            self.invalid += 1
            return ()
        for part in parts:
            self._count(part)
        return parts

    def _count(self, part: Part) -> None:
        """Add a part without errors."""
        self._brought.update(part.brought)
        if part.kind:
            self.others.append(part.kind)
        else:
            self.jobs += 1
            for _, kind, namespace, name in part.keys:
                if kind == "Service":
                    self._services.setdefault(name, set()).add(namespace)
        if part.facts != Facts():
            self._facts.append(part.facts)

    def _has_service(self, part: Part) -> bool:
        """Return True and warn if an earlier job has rendered this headless Service."""
        if part.replaced is None or not self._renders(part.keys):
            return False
        self.problems += severe([part.replaced], strict=self._strict)
        return True

    def _renders(self, identities: Iterable[Key]) -> bool:
        """Return True if an earlier job may have rendered one of these Services."""
        return any(
            same_object((other, name), (namespace, name))
            for _, _, namespace, name in identities
            for other in self._services.get(name, ())
        )

    def leaves_out(self, document: Document) -> bool:
        """Return True for a headless Service that a job in the input renders itself."""
        if not isinstance(document.data, dict) or own_service(document) is None:
            return False
        return is_own(document) or self._renders(keys([document.data]))

    def finish(self) -> None:
        """Add the problems that depend on all documents."""
        self.problems += severe(across(self._facts), strict=self._strict)

    def missing(self, needs: Iterable[Prerequisite]) -> tuple[Prerequisite, ...]:
        """Return the prerequisites of a job that no part provides."""
        return prerequisites.missing(needs, self._taken, self._brought)

    def with_prerequisites(self, part: Part) -> Rendered | Foreign:
        """Return a job with its missing prerequisites, or another object unchanged."""
        content: Rendered | Foreign = part.content
        if isinstance(content, Foreign):
            return content
        return replace(content, prerequisites=self.missing(part.needs))


def too_many(limit: int) -> Problem:
    """Return the error of the job that exceeds the limit of objects."""
    message = f"the jobs up to this one have more than {limit:,} objects"
    return Problem(("metadata", "name"), message, "too-large", "render fewer jobs at a time")


def too_many_bytes() -> Problem:
    """Return the error of the job whose text exceeds the limit of bytes."""
    message = f"the output up to this document has more than {BYTES >> 20:,} MiB"
    return Problem((), message, "too-large", "render fewer jobs at a time")


def too_much_memory() -> Problem:
    """Return the error of the document that exceeds the limit of memory."""
    message = f"the jobs up to this document need more than {KEPT_BYTES >> 20} MiB of memory"
    return Problem((), message, "too-large", "pass fewer jobs at a time")


def too_many_problems() -> Problem:
    """Return the error of the document that exceeds the limit of problems."""
    message = f"there are more than {PROBLEMS_OF_COMMAND:,} problems; the others are not listed"
    return Problem((), message, "too-large", "fix these first")


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
            room -= objects.errors.bytes_of([document.data]) + PROBLEM_BYTES * len(more)
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
        objects.errors.require_combinations(count, job.objects)
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
        job = replace(job, part_of=combination.base)
    collector = Collector(invalid_excuses(document))
    with collector.catch():
        job, topology, manifests = _built(job, options, collector, document.data["spec"])
        settings: list[str] = []
        if options.target:
            from mlgen.variants import gitops

            collector.extend(gitops.warnings(job, topology, options.target))
            manifests = gitops.adapted(topology, manifests, options.target)
            settings = gitops.settings(topology, manifests, options.target)
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
    if options.jobset:
        from mlgen.variants import jobset

        manifests = jobset.packed(topology, manifests)
        sizes = (checks.sizes(item, jobset.TOO_LARGE) for item in manifests)
        too_large = chain.from_iterable(sizes) if len(topology.roles) > 1 else ()
        collector.extend(_located(document, too_large))
        collector.raise_errors()
    rendered = Rendered(
        name,
        document,
        job,
        options.kube_version,
        topology,
        tuple(manifests),
        settings=tuple(settings),
        reapply="" if options.target else reapply.warning(topology),
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


def _built(
    job: TrainingJob, options: Options, collector: Collector, spec: dict[str, Any]
) -> tuple[TrainingJob, Topology, list[Object]]:
    """Return the job under its final name, its topology and its objects.

    Problems of the topology are added to the collector, and its objects are built nevertheless, so
    that their problems are reported as well.
    """
    if job.name_suffix is not None:
        from mlgen.variants import name_hash

        # The hash must not depend on whether a workflow runs the job.
        plain = _topology(job, replace(options, workflow=False), spec)
        job = name_hash.renamed(job, plain, objects.build(plain, options.kube_version))
    topology = _topology(job, options, spec)
    collector.extend(topology.problems)
    if not any(role.decides for role in topology.roles):
        collector.raise_errors()  # there is no complete set of roles
    manifests = objects.build(topology, options.kube_version)
    if job.part_of or topology.job.jobset:
        from mlgen.variants import name_hash

        manifests = name_hash.in_addresses(topology, manifests)
    return job, topology, manifests


def _topology(job: TrainingJob, options: Options, spec: dict[str, Any]) -> Topology:
    """Return a job's topology, without policies that a workflow or another tool replaces.

    Args:
        job: the job.
        options: the options for rendering.
        spec: of the job file.
    """
    framework = frameworks.get(job.framework)
    if options.workflow:
        from mlgen.variants import workflow

        return workflow.with_workflow_restarts(framework.topology(workflow.without_policies(job)))
    if options.jobset:
        from mlgen.variants import jobset

        topology = framework.topology(jobset.without_policies(job))
        differences = tuple(jobset.problems(topology, spec))
        topology = jobset.without_servers(topology)
        return replace(topology, problems=(*topology.problems, *differences))
    if options.target:
        from mlgen.variants import gitops

        job = gitops.without_policies(job)
    return framework.topology(job)


def _located(document: Document, problems: Iterable[Problem]) -> list[Problem]:
    """Return each problem once, with its location."""
    found = (replace(each, path=origin(document.data, each.path)) for each in problems)
    return list(dict.fromkeys(map(document.located, found)))
