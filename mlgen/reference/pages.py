"""Pages of `mlgen explain`, as plain text for a terminal, and of `docs/`, as Markdown.

`.ci/reference` writes the pages of `docs/`, and a test checks that they are up to date. The texts
are in `templates/reference`.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from html import escape
from textwrap import fill, indent
from typing import Any

from mlgen import frameworks
from mlgen.flow import flow
from mlgen.jobfile.schema import meanings
from mlgen.jobfile.validation import EXCUSABLE_ERRORS
from mlgen.output import pages
from mlgen.output.yaml import yaml_text
from mlgen.problems import did_you_mean
from mlgen.reference import fields, problem_codes, rules
from mlgen.reference.facts import facts
from mlgen.reference.fields import Field
from mlgen.reference.man import Manual, option_sets
from mlgen.resources import table
from mlgen.topology import INDEX

WIDTH = 100
MARGIN = 4
"""Columns of the margin of sections. `WIDTH` is the columns of a page."""

MENTIONS = 8
"""A word that more fields mention is a usual word, or a misspelled name."""

LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")

CODE = re.compile(
    r"('[^' ]*[=*][^']*'|(?<![\w-])--?[a-z][\w-]*(?: DIR\b)?|\bspec\.[\w.=]+\w|\.mlgen/[\w.]+\w)"
)
"""Code in the help of an option: a quoted value, an option or a path."""

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


def fields_page() -> str:
    """Return the page of all fields of the job file."""
    (spec,) = fields.root().child("spec")
    shared = [child.name for child in spec.children() if fields.shared_with_roles(child)]
    objects = [fields.root(), *filter(_listed, fields.every())]
    return _filled("fields.md", objects=objects, shared=shared, names=_names(objects, shared))


def _names(objects: Collection[Field], shared: Collection[str]) -> dict[str, list[Field]]:
    """Return the fields inside these objects that have an anchor in `docs/`, by name, in order.

    Args:
        objects: the fields with a section of their own.
        shared: names of the fields that roles share with `spec`. Only those of `spec` are included.
    """
    found: dict[str, list[Field]] = {}
    for field in (child for parent in objects for child in _listed(parent)):
        repeated = field.path[:-1] == ("spec", "roles", "<role>") and field.name in shared
        if field.name[0] != "<" and field.path[:3] != ("spec", "template", "spec") and not repeated:
            found.setdefault(field.name, []).append(field)
    return {name: found[name] for name in sorted(found, key=str.lower)}


def _id(field: Field) -> str:
    """Return the anchor of a field: `spec-roles-role-replicas`."""
    steps = [*field.path, *(field.frameworks[:1] if field.path[1:2] == ("options",) else ())]
    return "-".join(step.strip("<>").lower() for step in steps)


def commands_page(manual: Manual, groups: Mapping[str, Collection[str]]) -> str:
    """Return the page of all commands.

    Args:
        manual: help of mlgen.
        groups: names of its commands, by the title of their section.
    """
    return _filled("commands.md", groups=manual.grouped(groups), common=_common(manual))


def _common(manual: Manual) -> dict[str, dict[str, str]]:
    """Return the options that several commands share, with their help, by title of the set."""
    commands = [*manual.commands, *(inner for each in manual.commands for inner in each.commands)]
    found = {key: pair for command in commands for key, pair in command.shared.items()}
    return {title: dict(found[key] for key in keys) for title, keys in option_sets().items()}


def problems_page(formats: Mapping[str, str]) -> str:
    """Return the page of all problem codes and formats.

    Args:
        formats: the same problem in each format, by name. `yaml` is the job file.
    """
    codes = [problem_codes.explanation(name) for name in problem_codes.names()]
    return _filled(
        "problems.md",
        codes=codes,
        formats=formats,
        excusable_errors=EXCUSABLE_ERRORS,
        with_rules={rules.problems_of(rule)[0].code for rule in rules.by_subject()},
    )


def rules_page() -> str:
    """Return the page of all rules, each below the code of its first problem."""
    groups: dict[str, list[rules.AnyRule]] = {}
    for rule in rules.named().values():
        groups.setdefault(rules.problems_of(rule)[0].code, []).append(rule)
    groups = dict(sorted(groups.items()))
    return _filled("rules.md", groups=groups)


def framework_block(name: str) -> str:
    """Return the generated part of the page of a framework."""
    options = [replace(option, frameworks=(name,)) for option in fields.options(name)]
    return _filled("framework.md", known=facts(name), options=options)


def _filled(template: str, **values: Any) -> str:
    """Return a page from a template and its values. The template can call these functions."""
    functions = {
        "anchor": _anchor,
        "cell": cell,
        "cells": lambda texts: ", ".join(map(cell, texts)),
        "help": _help,
        "id": _id,
        "command": problem_codes.COMMAND,
        "example": lambda field: "\n".join(_example(field)),
        "explained": _explained,
        "flow": flow,
        "index": INDEX,
        "indented": lambda text, margin=" " * MARGIN: indent(text, margin),
        "listed": _listed,
        "markdown": _markdown,
        "first_sentence": lambda text: re.split(r"(?<=\.)\s", text)[0],
        "paragraphs": lambda text: [" ".join(each.split()) for each in text.split("\n\n")],
        "problems": rules.problems,
        "shown": rules.shown,
        "plain": lambda text: LINK.sub(r"\1", text).replace("`", ""),
        "shared_with_roles": fields.shared_with_roles,
        "valued": _valued,
        "without_texts": rules.WITHOUT_TEXTS,
        "wrapped": _wrapped,
    }
    text = pages.page(f"reference/{template}", **functions, **values)
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


def _explained(field: Field) -> list[str]:
    """Return the values of a field if its description explains all: `None: keep everything.`."""
    return field.values if all(meanings(field.description, field.values)) else []


def _valued(field: Field) -> str:
    """Return the description of a field for a table cell, with a line per explained value."""
    text = _markdown(field.description)
    for value in _explained(field):
        text = text.replace(f". {value}: ", f".<br>{cell(value)}: ", 1)
    return text


def _listed(field: Field) -> list[Field]:
    """Return the fields inside a field that have their own section in `docs/`."""
    return [child for child in field.children() if child.schema]


def _anchor(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and MkDocs make it."""
    return "".join(c for c in heading.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def cell(text: str) -> str:
    """Return code for a table cell, with `|` escaped."""
    if "|" not in text:
        return f"`{text}`"
    return f"<code>{escape(text, quote=False).replace('|', '&vert;')}</code>"


def _help(text: str) -> str:
    """Return the help of an option for a table cell, with code marked up."""
    text = re.sub(r"\s+\[x>=(\d+)\]$", r" Minimum: \1.", text.replace("; x>=0]", "]"))
    text, _, default = text.removesuffix("]").partition("  [default: ")
    words = CODE.split(escape(text, quote=False))
    words[1::2] = map(cell, CODE.findall(text))
    shown = "".join(words)
    return f"{shown} Default: {cell(default)}." if default else shown


def _markdown(text: str) -> str:
    """Return plain text as Markdown. Text in backquotes stays code."""
    parts = text.split("`")
    parts[::2] = [escape(part, quote=False) for part in parts[::2]]
    return "`".join(parts)
