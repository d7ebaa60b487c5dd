"""Pages of `mlgen explain`, as plain text for a terminal, and of `docs/`, as Markdown.

`.ci/reference` writes those of `docs/`; a test compares them with what is checked in. The words are
in `templates/reference`.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from html import escape
from textwrap import fill, indent
from typing import Any

from mlgen import frameworks
from mlgen.flow import flow
from mlgen.output import pages
from mlgen.output.yaml import yaml_text
from mlgen.problems import did_you_mean
from mlgen.reference import fields, problem_codes
from mlgen.reference.facts import facts
from mlgen.reference.fields import Field
from mlgen.reference.man import Manual
from mlgen.topology import INDEX

WIDTH = 100
MARGIN = 4
"""The number of columns of the pages, and of the margin of sections."""

LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")

PLACEHOLDERS = {"<role>": "worker", "<name>": "name"}
"""Names for placeholders in examples."""


def page(topic: str = "", *, recursive: bool = False) -> str:
    """Return the page of a topic.

    Args:
        topic: a framework, a problem code or the path of a field; "" for the job file.
        recursive: print all fields in a field, as a tree.

    Raises:
        LookupError: there is nothing of that name; the message says what may be meant.
    """
    topic = topic.strip("[]")  # a code as in a message: [no-such-peer]
    if not topic and not recursive:
        tops = sorted(fields.root().children(), key=lambda field: field.name == "spec")
        return _filled("overview.txt", tops=tops, names=frameworks.names())
    if topic in frameworks.names():
        return _filled("framework.txt", known=facts(topic), options=fields.options(topic))
    if topic in problem_codes.names():
        return _filled("code.txt", known=problem_codes.explanation(topic))
    try:
        found = fields.find(topic)
    except LookupError as error:
        names = [*frameworks.names(), *problem_codes.names()]
        hint = did_you_mean(topic, names, cutoff=0.75)
        if "." in topic or not hint:
            raise
        message = f'there is no field, framework or problem code "{topic}"; {hint}'
        raise LookupError(message) from error
    return "\n".join(_filled("field.txt", field=field, recursive=recursive) for field in found)


def fields_page() -> str:
    """Return the page of all fields of the job file."""
    (spec,) = fields.root().child("spec")
    shared = [child.name for child in spec.children() if fields.shared_with_roles(child)]
    objects = [fields.root(), *filter(_listed, fields.every())]
    return _filled("fields.md", objects=objects, shared=shared)


def commands_page(manual: Manual, groups: Mapping[str, Collection[str]]) -> str:
    """Return the page of all commands.

    Args:
        manual: of mlgen.
        groups: the titles under which its commands are, with their names.
    """
    return _filled("commands.md", groups=manual.grouped(groups))


def problems_page() -> str:
    """Return the page of all problem codes."""
    return _filled("problems.md", codes=map(problem_codes.explanation, problem_codes.names()))


def framework_block(name: str) -> str:
    """Return the generated part of the page of a framework."""
    options = [replace(option, frameworks=(name,)) for option in fields.options(name)]
    return _filled("framework.md", known=facts(name), options=options)


def _filled(template: str, **values: Any) -> str:
    """Return a page: a template with values, and what it may call."""
    functions = {
        "anchor": _anchor,
        "command": problem_codes.COMMAND,
        "example": lambda field: "\n".join(_example(field)),
        "flow": flow,
        "index": INDEX,
        "indented": lambda text, margin=" " * MARGIN: indent(text, margin),
        "listed": _listed,
        "markdown": _markdown,
        "plain": lambda text: LINK.sub(r"\1", text).replace("`", ""),
        "shared_with_roles": fields.shared_with_roles,
        "wrapped": _wrapped,
    }
    text = pages.page(f"reference/{template}", **functions, **values)
    return f"{text.rstrip()}\n"


def _wrapped(text: str, margin: str = "", width: int = WIDTH - MARGIN) -> str:
    """Return a paragraph in lines that fit a terminal."""
    return fill(
        text,
        width,
        initial_indent=margin,
        subsequent_indent=margin,
        break_on_hyphens=False,
        break_long_words=False,
    )


def _example(field: Field) -> Iterator[str]:
    """Yield the lines of an example of a field, within the fields around it."""
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


def _listed(field: Field) -> list[Field]:
    """Return the fields in a field that a page of `docs/` lists, in a section of its own."""
    return [child for child in field.children() if child.schema]


def _anchor(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and MkDocs make it."""
    return "".join(c for c in heading.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def _markdown(text: str) -> str:
    """Return plain text, in which backquotes mark code, for a paragraph."""
    parts = text.split("`")
    parts[::2] = [escape(part, quote=False) for part in parts[::2]]
    return "`".join(parts)
