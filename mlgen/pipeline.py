"""The walk: the documents of the input are rendered one after the other.

The API, the command line and all integrations take the outcomes of one `Walk`. It finds the
problems between documents, such as two objects of one name, and ends at the limits of a command.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mlgen import checks, dialects
from mlgen.checks import prerequisites
from mlgen.checks.other_documents import (
    Facts,
    across,
    facts_of,
    facts_of_job,
    is_own,
    own_service,
    same_object,
)
from mlgen.checks.pods import NAME
from mlgen.checks.prerequisites import Prerequisite
from mlgen.documents.document import Document
from mlgen.documents.files import Text
from mlgen.input_limits import BYTES, KEPT_BYTES, OBJECTS, OBJECTS_AT_ONCE, PROBLEMS_OF_COMMAND
from mlgen.kubernetes.objects import Identities, Key, keys, memory
from mlgen.output.files import FullError, Spool
from mlgen.problems import MlgenError, Place, Problem, severe
from mlgen.rendering import render_document
from mlgen.result import Foreign, Options, Rendered, Result

DOCUMENT_FACTOR = 4
"""The memory of a document, with the places of its values, divided by the memory of its data."""

SPLIT = "render fewer jobs at a time"

Identified = tuple[Rendered | Foreign, list[Key]]
"""A part of a document, with the identities of its objects."""


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
    walk = Walk(options, OBJECTS_AT_ONCE)
    parts: list[Rendered | Foreign] = []
    kept, counted = 0, set[int]()
    for outcome in walk.outcomes(texts):
        parts += outcome.parts
        for part in outcome.parts:
            kept += memory(part.objects, counted)
            kept += DOCUMENT_FACTOR * memory(part.document.data, counted)
        if kept > KEPT_BYTES:
            message = (
                f"the jobs up to this document need more than {KEPT_BYTES >> 20} MiB of memory"
            )
            walk.end(outcome, Problem((), message, "too-large", "pass fewer jobs at a time"))
    walk.finish()
    return Result(tuple(map(walk.with_prerequisites, parts)), tuple(walk.problems), walk.invalid)


@dataclass
class Outcome:
    """The result of one document.

    Attributes:
        text: contains the document.
        document: None if it cannot be read.
        parts: its jobs, or the object itself; empty if it cannot be rendered.
        problems: its problems so far, and those that depend on later documents.
    """

    text: Text
    document: Document | None = None
    parts: Sequence[Rendered | Foreign] = ()
    problems: list[Problem] = field(default_factory=list)

    def located(self, problem: Problem) -> Problem:
        """Return a problem with its location in the document, or else in the file."""
        if self.document:
            return self.document.located(problem)
        return replace(problem, place=problem.place or Place(self.text.name, 0))


class Walk:
    """The documents of the input in order, and the problems that depend on several of them.

    Args:
        options: the options for rendering.
        limit: the maximum number of objects that one command renders.

    Attributes:
        problems: the problems in the order of reporting.
        jobs: the number of rendered jobs.
        invalid: the number of documents that could not be rendered.
        others: the kind of each other object.
        is_full: True if a limit of one command is reached.
        spool: the output, if the caller stores it here.
    """

    def __init__(self, options: Options, limit: int = OBJECTS) -> None:
        self.options = options
        self.problems: list[Problem] = []
        self.jobs = self.invalid = self._objects = 0
        self.is_full = False
        self.others: list[str] = []
        self.spool = Spool()
        self._limit = limit
        self._taken, self._brought = Identities(), Identities()
        self._services: dict[str, set[str]] = {}
        self._facts: list[Facts] = []

    def outcomes(self, texts: Iterable[Text]) -> Iterator[Outcome]:
        """Yield the outcome of each document of texts, until a limit is reached."""
        for text in dialects.in_context(texts):
            yield from self.outcomes_of(text, dialects.documents(text))

    def outcomes_of(
        self, text: Text, documents: Iterable[Document | list[Problem]]
    ) -> Iterator[Outcome]:
        """Yield the outcome of each document of a text, until a limit is reached.

        Args:
            text: contains the documents.
            documents: in place of a document that cannot be read, its problems.
        """
        for document in documents:
            if self.is_full:
                return
            yield self._outcome(text, document)

    def _outcome(self, text: Text, document: Document | list[Problem]) -> Outcome:
        """Render a document."""
        outcome = Outcome(text)
        if isinstance(document, list):
            self.report(outcome, document)
            return outcome
        outcome.document = document
        problems: Sequence[Problem]
        try:
            parts, problems = render_document(text.name, document, self.options)
            is_valid = not (problems and self.options.strict)
        except MlgenError as error:
            parts, problems, is_valid = (), error.problems, False
        self.report(outcome, problems)
        if is_valid:
            parts = [part for part in parts if not self._is_left_out(outcome, part)]
        identified = [(part, keys(part.objects)) for part in parts] if is_valid else []
        if is_valid and self._take(outcome, identified):
            outcome.parts = parts
            for part, own in identified:
                self._count(outcome, part, {*own})
        else:
            self.invalid += 1
        return outcome

    def report(self, outcome: Outcome, problems: Iterable[Problem]) -> None:
        """Add problems of a document, with their locations."""
        found = severe(map(outcome.located, problems), strict=self.options.strict)
        self.problems += found
        outcome.problems += found
        if len(self.problems) > PROBLEMS_OF_COMMAND and not self.is_full:
            self.is_full = True
            count = f"more than {PROBLEMS_OF_COMMAND:,} problems"
            message = f"there are {count}; the others are not listed"
            self.problems.append(Problem((), message, "too-large", "fix these first"))

    def end(self, outcome: Outcome, problem: Problem) -> None:
        """End the walk with a document that exceeds a limit."""
        self.report(outcome, [problem])
        self.is_full = True

    def write(self, outcome: Outcome, item: Any) -> None:
        """Add plain data of a document to the spool. Too many bytes end the walk."""
        if self.is_full:
            return
        try:
            self.spool.add(item)
        except FullError:
            message = f"the output up to this document has more than {BYTES >> 20:,} MiB"
            self.end(outcome, Problem((), message, "too-large", SPLIT))

    def reserve(self, identities: Iterable[Key]) -> None:
        """Add the identities of objects that no job may have."""
        self._taken.update(identities)

    @property
    def has_errors(self) -> bool:
        """True if a problem prevents rendering."""
        return any(not problem.warning for problem in self.problems)

    def _is_left_out(self, outcome: Outcome, part: Rendered | Foreign) -> bool:
        """Return True and warn if an earlier job has rendered this headless Service."""
        replaced = own_service(part.document) if isinstance(part, Foreign) else None
        if replaced is None or not self._renders(keys(part.objects)):
            return False
        self.report(outcome, [replaced])
        return True

    def _take(self, outcome: Outcome, identified: Iterable[Identified]) -> bool:
        """Return True if the objects of a document's parts collide with no others, or report it."""
        errors: list[Problem] = []
        for part, own in identified:
            fix = "rename this object, because a job has an object of this name"
            hints = (fix,) if isinstance(part, Foreign) else ()
            errors += checks.collisions(own, self._taken, *hints)
            self._taken.update(own)
            self._objects += len(own)
        if self._objects > self._limit:
            self.is_full = True
            message = f"the jobs up to this one have more than {self._limit:,} objects"
            errors.append(Problem(NAME, message, "too-large", SPLIT))
        self.report(outcome, errors)
        return not errors

    def _count(self, outcome: Outcome, part: Rendered | Foreign, own: set[Key]) -> None:
        """Add a part without errors, whose objects have these identities."""
        self._brought.update(key for key in prerequisites.brought(part.objects) if key not in own)
        if isinstance(part, Foreign):
            self.others.append(part.document.data["kind"])
            facts = facts_of(part.document)
        else:
            self.jobs += 1
            for _, kind, namespace, name in own:
                if kind == "Service":
                    self._services.setdefault(name, set()).add(namespace)
            facts = facts_of_job(part.job.name, part.objects, part.document)
        if facts != Facts():
            self._facts.append(facts)
            outcome.problems += facts.problems

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
        self.problems += severe(across(self._facts), strict=self.options.strict)

    def missing(self, needs: Iterable[Prerequisite]) -> tuple[Prerequisite, ...]:
        """Return the prerequisites of a job that no part provides."""
        return prerequisites.missing(needs, self._taken, self._brought)

    def with_prerequisites(self, part: Rendered | Foreign) -> Rendered | Foreign:
        """Return a job with its missing prerequisites, or another object unchanged."""
        if isinstance(part, Foreign):
            return part
        return replace(part, prerequisites=self.missing(prerequisites.named(part.objects)))
