"""Helpers of the fuzzer's targets.

A target is a function with `@target`, which raises if mlgen handles a text incorrectly. The targets
in `of_documents` use whole documents with changes (`shapes`). The targets in `of_texts` use texts
with changed characters, because each of these texts has its own parser. The targets in `of_lines`
use texts with repeated parts.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from fuzz.commands import COMMANDS, Command, Outcome, flaws, run, run_on
from fuzz.shapes import Shaper
from support import load_all

from mlgen.documents.document import Document
from mlgen.documents.reader import read_document

JOB = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: job}
spec: {framework: pytorch, image: a, roles: {master: {}, worker: {replicas: 2, args: [--lr, '1']}}}
"""

Check = Callable[[str], None]


def shaped(chance: Any) -> str:
    """Return a random text of `shapes`."""
    return Shaper(chance).text()


class Target(NamedTuple):
    """A check, and the source of its texts.

    Attributes:
        check: raises if mlgen handles a text incorrectly.
        seeds: returns the texts from which others are generated; None to use `make`.
        make: returns a text for a `random.Random`.
        is_linear: True if the limit on processor time grows with the text.
    """

    check: Check
    seeds: Callable[[], Sequence[str]] | None = None
    make: Callable[[Any], str] = shaped
    is_linear: bool = False


TARGETS: dict[str, Target] = {}


def target(
    seeds: Callable[[], Sequence[str]] | None = None, **how: Any
) -> Callable[[Check], Check]:
    """Register a check under its name, with the attributes of a `Target`."""

    def registered(check: Check) -> Check:
        TARGETS[check.__name__.replace("_", "-")] = Target(check, seeds, **how)
        return check

    return registered


class FlawError(AssertionError):
    """mlgen handled a text incorrectly."""


def require(ok: Any, *facts: Any) -> None:
    """Raise a FlawError with some facts unless a condition holds."""
    if not ok:
        raise FlawError("; ".join(str(fact) for fact in facts))


def run_flawless(command: Command, **how: Any) -> Outcome:
    """Run a command line, require an outcome without flaws, and return it."""
    outcome = run(*command.words, **how)
    for found in flaws(command, outcome):
        raise FlawError(found)
    return outcome


def flawless(name: str, text: str) -> tuple[int | None, str]:
    """Run one of COMMANDS on a text, require no flaws, and return the status and stdout.

    Half a surrogate pair is not valid UTF-8, so it is an error like other invalid bytes.
    """
    outcome = run_on(name, text.encode("utf-8", "surrogatepass"))
    for found in flaws(COMMANDS[name], outcome):
        raise FlawError(found)
    return outcome.status, outcome.out


def of_files(paths: Sequence[Path], step: int = 1) -> list[str]:
    """Return the texts of some files."""
    return [path.read_text() for path in paths[::step]]


def readable(text: str) -> list[Any] | None:
    """Return the documents of a text that libyaml reads; None if it reads YAML in another way.

    mlgen passes on a tag or an empty key that it does not need to understand.
    """
    try:
        return load_all(text)
    except (yaml.YAMLError, ValueError):
        return None


def parsed(text: str) -> list[Any]:
    """Return the documents of mlgen's output."""
    try:
        return load_all(text)
    except (yaml.YAMLError, ValueError) as error:
        raise FlawError(f"prints what is not YAML: {error}") from None


def same(data: Any, other: Any) -> bool:
    """Return True if two values are equal. NaN equals itself, 1 differs from true and 1.0."""
    return json.dumps(data, default=repr) == json.dumps(other, default=repr)


def document_of(text: str) -> Document | None:
    """Return a YAML document; None if the text is not one document without problems."""
    document = read_document("job.yaml", 0, text)
    is_good = isinstance(document, Document) and not document.problems
    return document if is_good and isinstance(document, Document) else None


def imported() -> None:
    """Import the modules of all commands, so that they do not count as memory of a text."""
    for name in COMMANDS:
        run_on(name, JOB.encode())
