"""The expected content of the generated reference, for the tests and `.ci/reference`."""

import re
from pathlib import Path

from reference.commands_page import commands_page
from reference.examples import messages
from reference.fields_pages import fields_pages, framework_block
from reference.problems_pages import problems_pages
from reference.python_page import python_page

from mlgen import frameworks
from mlgen.reference import rules

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"

GENERATED = re.compile(r"(<!-- generated: mlgen explain (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
MESSAGES = re.compile(r"(?<=```text\n).*?(?=```\n)", re.DOTALL)


def code_files(folder):
    """Return the file of each problem code, with the messages of its wrong example."""
    files = {}
    for code in rules.codes():
        path = rules.FOLDER / f"{code}.md"
        place = folder / code
        place.mkdir()
        text = messages(rules.explanation(code).wrong, place)
        files[path] = MESSAGES.sub(lambda _, text=text: text, path.read_text(), count=1)
    return files


def pages(_folder=None):
    """Return the pages of docs/ that are generated in full or in part."""
    files = {
        DOCS / "reference/commands.md": commands_page(),
        DOCS / "reference/python.md": python_page(),
    }
    for folder, texts in (("fields", fields_pages()), ("problems", problems_pages())):
        files |= {DOCS / f"reference/{folder}/{name}.md": text for name, text in texts.items()}
    for name in frameworks.names():
        path = DOCS / f"frameworks/{name}.md"
        if path.exists():
            files[path] = GENERATED.sub(_filled, path.read_text())
    return files


def _filled(match):
    """Return the generated part of a page, between its two comments."""
    head, name, end = match.groups()
    return f"{head}\n{framework_block(name)}\n{end}"
