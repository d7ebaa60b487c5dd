"""Fill the templates of the generated Markdown pages of docs/."""

from functools import cache
from html import escape
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

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
        "anchor": anchor,
        "cell": cell,
        "cells": lambda texts: ", ".join(map(cell, texts)),
        "flow": flow,
        "index": INDEX,
        "markdown": markdown,
    }
    return environment


def filled(template, **values):
    """Return a page from a template and its values."""
    return f"{_environment().get_template(template).render(values).rstrip()}\n"


def anchor(heading):
    """Return the anchor of a heading, as GitHub and MkDocs make it."""
    return "".join(c for c in heading.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def cell(text):
    """Return code for a line or a table cell, with `|` and backquotes escaped."""
    if not {*"|`"} & {*text}:
        return f"`{text}`"
    return f"<code>{escape(text, quote=False).replace('|', '&vert;').replace('`', '&#96;')}</code>"


def markdown(text):
    """Return plain text as Markdown. Text in backquotes stays code."""
    parts = text.split("`")
    parts[::2] = [escape(part, quote=False) for part in parts[::2]]
    return "`".join(parts)
