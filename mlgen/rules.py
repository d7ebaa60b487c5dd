"""Rules: each is a function that reports one mistake, with its message and examples.

A rule is written in one place. Its name is the name of its function, and its docstring explains it:
a sentence, why it matters with a source, and job files that are wrong and right. A copy of this one
is a start:

    @of_launchers
    def node_rank(launched: Launched) -> Iterator[Problem]:
        \"\"\"Report a node rank that several replicas share, so that none of them starts to train.

        wrong:
            framework: pytorch
            command: [torchrun, --node_rank=0, train.py]
            roles: {worker: {replicas: 2}}
        right:
            framework: pytorch
            command: [torchrun, train.py]
            roles: {worker: {replicas: 2}}
        \"\"\"
        if launched.launch.number("node_rank") is not None and launched.spec.replicas > 1:
            yield launched.error("all replicas have rank 0", "remove --node_rank")

An example is the `spec` of a job file, or a complete document that begins with `apiVersion:`. The
tests render all of them: each wrong one has a problem of its rule, and each right one has none.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from inspect import cleandoc
from textwrap import dedent, indent
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

Subject = TypeVar("Subject")
Found = TypeVar("Found")


class Texts(NamedTuple):
    """The docstring of a rule, in parts.

    Attributes:
        text: the explanation.
        wrong: examples with a problem of the rule.
        right: examples without a problem.
    """

    text: str
    wrong: list[str]
    right: list[str]


@dataclass(frozen=True)
class Rule(Generic[Subject, Found]):
    """A rule for one kind of subject.

    Attributes:
        subject: the kind: "launcher", "role", "pod".
        check: the function, which yields the problems of a subject.
        when: an attribute of subjects, without whose value the rule cannot apply; "" for none.
    """

    subject: str
    check: Callable[[Subject], Iterable[Found]]
    when: str = ""

    def applies(self, subject: Subject) -> bool:
        """Return whether a subject has the value that the rule is about."""
        return not self.when or bool(getattr(subject, self.when))

    @property
    def name(self) -> str:
        """The name of the rule: `node-rank`."""
        return self.check.__name__.replace("_", "-")

    @property
    def texts(self) -> Texts:
        """The parts of its docstring."""
        text, *parts = re.split(r"(?m)^(wrong|right):\n", cleandoc(self.check.__doc__ or ""))
        pairs = list(zip(parts[::2], map(dedent, parts[1::2]), strict=True))
        wrong, right = (
            [part for kind, part in pairs if kind == name] for name in ("wrong", "right")
        )
        return Texts(text.strip(), wrong, right)


class Rules(Generic[Subject, Found]):
    """The rules for one kind of subject, in the order of their definition.

    Used as a decorator, it adds a function.
    """

    every: ClassVar[list[Rule[Any, Any]]] = []  # of all kinds of subjects

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.rules: list[Rule[Subject, Found]] = []

    def __call__(
        self, check: Callable[[Subject], Iterable[Found]], when: str = ""
    ) -> Callable[[Subject], Iterable[Found]]:
        """Add a rule."""
        rule = Rule(self.subject, check, when)
        self.rules.append(rule)
        self.every.append(rule)
        return check

    def when(
        self, attribute: str
    ) -> Callable[[Callable[[Subject], Iterable[Found]]], Callable[[Subject], Iterable[Found]]]:
        """Return a decorator for a rule that only applies to subjects with this attribute set."""
        return partial(self, when=attribute)

    def broken_by(self, subject: Subject) -> Iterator[Found]:
        """Yield the problems that the rules find in a subject."""
        for rule in self.rules:
            if rule.applies(subject):
                yield from rule.check(subject)


def job_file(example: str) -> str:
    """Return the job file of an example of a rule, as YAML."""
    if example.startswith("apiVersion:"):
        return example
    image = "" if re.search(r"(?m)^image:", example) else "  image: example/train:1\n"
    head = "apiVersion: mlgen.dev/v1alpha1\nkind: TrainingJob\nmetadata:\n  name: example\nspec:\n"
    return head + image + indent(example, "  ")
