"""The expected content of the generated reference, for the tests and `.ci/reference`."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

from click import unstyle
from click.testing import CliRunner
from reference.commands_page import commands_page
from reference.examples import messages
from reference.markdown import fields_page, framework_block, problems_page, rules_page
from reference.python_page import python_page

from mlgen import frameworks
from mlgen.cli import main
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
        DOCS / "reference/fields.md": fields_page(),
        DOCS / "reference/commands.md": commands_page(),
        DOCS / "reference/problems.md": problems_page(_formats()),
        DOCS / "reference/rules.md": rules_page(),
        DOCS / "reference/python.md": python_page(),
    }
    for name in frameworks.names():
        path = DOCS / f"frameworks/{name}.md"
        if path.exists():
            files[path] = GENERATED.sub(_filled, path.read_text())
    return files


def _formats():
    """Return the output of `mlgen validate` for an invalid job, by problem format."""
    example = rules.explanation("unknown-role").wrong
    options = {
        "text": [],
        "terminal": ["--color", "always"],
        "json": ["--problems", "json"],
        "github": ["--problems", "github"],
    }
    printed = {}
    for name, words in options.items():
        with TemporaryDirectory() as folder:
            path = Path(folder) / "job.yaml"
            path.write_text(example.files["job.yaml"])
            result = CliRunner().invoke(main, ["validate", *words, str(path)])
            output = result.stdout if name == "json" else result.output
            printed[name] = output.replace(str(path), path.name)
    return {"yaml": example.files["job.yaml"], **{n: unstyle(t) for n, t in printed.items()}}


def _filled(match):
    """Return the generated part of a page, between its two comments."""
    head, name, end = match.groups()
    return f"{head}\n{framework_block(name)}\n{end}"
