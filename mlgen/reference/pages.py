"""Pages of `mlgen explain`, as plain text. The texts are in `templates/reference`."""

import re
from collections.abc import Iterator
from textwrap import fill, indent
from typing import Any

from mlgen import frameworks
from mlgen.flow import flow
from mlgen.output.terminal import template_text
from mlgen.output.yaml import yaml_text
from mlgen.problems import did_you_mean
from mlgen.reference import fields, problem_codes, rules
from mlgen.reference.facts import facts
from mlgen.reference.fields import Field
from mlgen.resources import table
from mlgen.topology import INDEX

WIDTH = 100
MARGIN = 4
"""Columns of the margin of sections. `WIDTH` is the columns of a page."""

MENTIONS = 8
"""A word that more fields mention is a usual word, or a misspelled name."""

LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")

PLACEHOLDERS = {"<role>": "worker", "<name>": "name"}
"""Names for placeholders in examples."""


def page(topic: str = "", *, recursive: bool = False) -> str:
    """Return the page of a topic.

    Args:
        topic: a framework, a problem code, a rule, or the path of a field. "" for the job file.
        recursive: include all fields below a field, as a tree.

    Raises:
        LookupError: unknown topic. The message contains a suggestion.
    """
    topic = topic.strip("[]")  # a code as in a message: [no-such-peer]
    if not topic and not recursive:
        tops = sorted(fields.root().children(), key=lambda field: field.name == "spec")
        return _filled("overview.txt", tops=tops, names=frameworks.names())
    if topic in frameworks.names():
        return _filled("framework.txt", known=facts(topic), options=fields.options(topic))
    every, known = rules.named(), ""
    if topic in problem_codes.names():
        of_code = [every[name] for name in rules.by_code().get(topic, ())]
        known = _filled("code.txt", known=problem_codes.explanation(topic), rules=of_code)
    if topic in every:
        known += "\n" * bool(known) + _filled("rule.txt", rule=every[topic])
    if known:
        return known
    try:
        found = fields.find(topic)
    except LookupError as error:
        names = [*frameworks.names(), *problem_codes.names(), *every]
        hint = did_you_mean(topic, names, cutoff=0.75)
        mentions = "" if "." in topic else _mentions(topic)
        if mentions:
            return mentions
        if "." in topic or not hint:
            raise
        message = f'there is no field, framework, problem code or rule "{topic}"; {hint}'
        raise LookupError(message) from error
    return "\n".join(_filled("field.txt", field=field, recursive=recursive) for field in found)


def _mentions(word: str) -> str:
    """Return the page of a word in descriptions of fields, or of a variable; "" if unknown."""
    whole = re.compile(rf"\b{re.escape(word)}\b", re.IGNORECASE)
    named = [field for field in fields.every() if whole.search(field.description)]
    setters = [
        row.partition("-")[0]
        for row, variables in table("frameworks/variables").items()
        if isinstance(variables, dict) and word in variables
    ]
    owners = [name for name in dict.fromkeys(setters) if name in frameworks.names()]
    if not owners and not 0 < len(named) <= MENTIONS:
        return ""
    return _filled("word.txt", word=word, named=named, owners=owners)


def _filled(template: str, **values: Any) -> str:
    """Return a page from a template and its values. The template can call these functions."""
    functions = {
        "command": problem_codes.COMMAND,
        "example": lambda field: "\n".join(_example(field)),
        "flow": flow,
        "index": INDEX,
        "indented": lambda text, margin=" " * MARGIN: indent(text, margin),
        "first_sentence": lambda text: re.split(r"(?<=\.)\s", text)[0],
        "paragraphs": lambda text: [" ".join(each.split()) for each in text.split("\n\n")],
        "problems": rules.problems,
        "shown": rules.shown,
        "plain": lambda text: LINK.sub(r"\1", text).replace("`", ""),
        "shared_with_roles": fields.shared_with_roles,
        "without_texts": rules.WITHOUT_TEXTS,
        "wrapped": _wrapped,
    }
    text = template_text(f"reference/{template}", **functions, **values)
    return f"{text.rstrip()}\n"


def _wrapped(text: str, margin: str = "", width: int = WIDTH - MARGIN) -> str:
    """Return a paragraph, wrapped for a terminal."""
    return fill(
        text,
        width,
        initial_indent=margin,
        subsequent_indent=margin,
        break_on_hyphens=False,
        break_long_words=False,
    )


def _example(field: Field) -> Iterator[str]:
    """Yield the lines of an example of a field, nested in its parent fields."""
    steps = [PLACEHOLDERS.get(step, step) for step in field.path]
    margins = ["  " * depth for depth in range(len(steps))]
    for depth in field.items:
        margins[depth] = f"{margins[depth][:-2]}- "
    for margin, step in zip(margins, steps[:-1], strict=False):
        yield f"{margin}{step}:"
    value = field.examples[0]
    line = f"{margins[-1]}{steps[-1]}: {flow(value)}"
    if len(line) <= WIDTH - MARGIN:
        yield line
    else:
        lines = yaml_text([{steps[-1]: value}]).splitlines()[1:]
        rest = " " * len(margins[-1])
        yield from (f"{rest if number else margins[-1]}{line}" for number, line in enumerate(lines))
