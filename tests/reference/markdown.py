"""Generate Markdown pages of docs/ from the schema, the frameworks, the codes and the rules."""

from functools import cache
from html import escape
from pathlib import Path
from textwrap import dedent

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from mlgen.jobfile.schema import meanings
from mlgen.jobfile.validation import EXCUSABLE_ERRORS
from mlgen.reference import fields, rules
from mlgen.reference.pages import MORE_ROLES, facts
from mlgen.shell import flow
from mlgen.topology import INDEX


@cache
def _environment():
    """The Jinja environment of the folder `templates`, with the functions that they call."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals |= {
        "anchor": _anchor,
        "cell": cell,
        "cells": lambda texts: ", ".join(map(cell, texts)),
        "command": rules.COMMAND,
        "explained": _explained,
        "flow": flow,
        "id": _id,
        "index": INDEX,
        "listed": _listed,
        "markdown": _markdown,
        "paragraphs": lambda text: [" ".join(each.split()) for each in text.split("\n\n")],
        "problems": rules.problems,
        "shown": rules.shown,
        "valued": _valued,
    }
    return environment


def _filled(template, **values):
    """Return a page from a template and its values."""
    return f"{_environment().get_template(template).render(values).rstrip()}\n"


def fields_page():
    """Return the page of all fields of the job file."""
    (spec,) = fields.root().child("spec")
    shared = [child.name for child in spec.children() if fields.shared_with_roles(child)]
    objects = [fields.root(), *filter(_listed, fields.every())]
    return _filled("fields.md", objects=objects, shared=shared, names=_names(objects, shared))


def _names(objects, shared):
    """Return the fields inside these objects that have an anchor in `docs/`, by name, in order.

    Args:
        objects: the fields with a section of their own.
        shared: names of the fields that roles share with `spec`. Only those of `spec` are included.
    """
    found = {}
    for field in (child for parent in objects for child in _listed(parent)):
        repeated = field.path[:-1] == ("spec", "roles", "<role>") and field.name in shared
        if field.name[0] != "<" and field.path[:3] != ("spec", "template", "spec") and not repeated:
            found.setdefault(field.name, []).append(field)
    return {name: found[name] for name in sorted(found, key=str.lower)}


def _id(field):
    """Return the anchor of a field: `spec-roles-role-replicas`."""
    steps = [*field.path, *(field.frameworks[:1] if field.path[1:2] == ("options",) else ())]
    return "-".join(step.strip("<>").lower() for step in steps)


def problems_page(formats):
    """Return the page of all problem codes and formats.

    Args:
        formats: the same problem in each format, by name. `yaml` is the job file.
    """
    codes = [rules.explanation(name) for name in rules.codes()]
    return _filled(
        "problems.md",
        codes=codes,
        formats=formats,
        excusable_errors=EXCUSABLE_ERRORS,
        with_rules={rules.problems_of(rule)[0].code for rule in rules.by_subject()},
    )


def rules_page():
    """Return the page of all rules, each below the code of its first problem."""
    groups = {}
    for rule in rules.by_name().values():
        groups.setdefault(rules.problems_of(rule)[0].code, []).append(rule)
    groups = dict(sorted(groups.items()))
    return _filled("rules.md", groups=groups)


def framework_block(name):
    """Return the generated part of the page of a framework."""
    known = facts(name)
    return _filled(
        "framework.md",
        known=known,
        spec=dedent(known.example.partition("\nspec:\n")[2]),
        settings={key: known.settings[key] for key in sorted({"", MORE_ROLES} & {*known.settings})},
        options=fields.options(name),
    )


def _explained(field):
    """Return the values of a field if its description explains all: `None: keep everything.`."""
    return field.values if all(meanings(field.description, field.values)) else []


def _valued(field):
    """Return the description of a field for a table cell, with a line per explained value."""
    text = _markdown(field.description)
    for value in _explained(field):
        text = text.replace(f". {value}: ", f".<br>{cell(value)}: ", 1)
    return text


def _listed(field):
    """Return the fields inside a field that have their own section in `docs/`."""
    return [child for child in field.children() if child.schema]


def _anchor(heading):
    """Return the anchor of a heading, as GitHub and MkDocs make it."""
    return "".join(c for c in heading.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def cell(text):
    """Return code for a table cell, with `|` escaped."""
    if "|" not in text:
        return f"`{text}`"
    return f"<code>{escape(text, quote=False).replace('|', '&vert;')}</code>"


def _markdown(text):
    """Return plain text as Markdown. Text in backquotes stays code."""
    parts = text.split("`")
    parts[::2] = [escape(part, quote=False) for part in parts[::2]]
    return "`".join(parts)
