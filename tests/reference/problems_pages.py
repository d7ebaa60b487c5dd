"""Generate the pages of docs/reference/problems from the problem codes and the rules."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from click import unstyle
from click.testing import CliRunner
from reference.markdown import filled

from mlgen.cli import main
from mlgen.jobfile.validation import EXCUSABLE_ERRORS
from mlgen.reference import rules


class Group(NamedTuple):
    """A page of codes: its title, the subject of its problems, and the codes."""

    title: str
    subject: str
    codes: str


GROUPS = {
    "programs": Group(
        "Programs",
        "command lines, scripts, variables, and programs of the image",
        " ".join(EXCUSABLE_ERRORS),
    ),
    "fields": Group(
        "Fields",
        "the fields of a job file and their values",
        "bad-setting bad-value combination deprecated missing-field missing-image missing-role"
        " no-effect secret-in-env unknown-field unknown-role unknown-value wait-cycle wrong-type",
    ),
    "objects": Group(
        "Objects",
        "the names, references, permissions and sizes of Kubernetes objects",
        "bad-name deciding large-object malformed name-collision name-too-long namespace no-name"
        " profile reference rights selector too-large unknown-program volume",
    ),
    "files": Group(
        "Files and tools",
        "the files that mlgen reads and writes, custom resources, the cluster and other tools",
        "bad-parameter differs duplicate-key empty foreign-file foreign-object kubectl missing-api"
        " no-job not-rendered not-run not-text not-toml not-yaml refused resource-list unknown-kind"
        " unreadable",
    ),
}
"""Pages by file name. Together they contain every code."""


def problems_pages():
    """Return the pages of problems, by file name without its extension."""
    groups = {page: sorted(group.codes.split()) for page, group in GROUPS.items()}
    assert sorted(code for codes in groups.values() for code in codes) == sorted(rules.codes())
    of_code = {}
    for rule in rules.by_name().values():
        of_code.setdefault(rules.problems_of(rule)[0].code, []).append(rule)
    values = {"groups": GROUPS, "codes": groups, "excusable": EXCUSABLE_ERRORS}
    texts = {"index": filled("problems.md", formats=_formats(), **values)}
    for page, codes in groups.items():
        explained = [(rules.explanation(code), of_code.get(code, ())) for code in codes]
        texts[page] = filled(
            "problems-group.md", group=GROUPS[page], codes=explained, sentence=_sentence, says=_says
        )
    return texts


def _sentence(rule):
    """Return the first paragraph of a rule's text, as a description of the mistake."""
    text = " ".join(rule.texts.text.split("\n\n")[0].split())
    mistake = text.removeprefix("Report ").removeprefix("Warn of ")
    return mistake[:1].upper() + mistake[1:]


def _says(rule):
    """Return the message of the first wrong example of a rule, without its location and code."""
    problem = rules.problems_of(rule)[0]
    text = f"{problem.message}; {problem.hint}".removesuffix("; ")
    return f"warning: {text}" if problem.warning else text


def _formats():
    """Return an invalid job as `yaml`, and the output of `mlgen validate` by problem format."""
    job = rules.explanation("unknown-role").wrong.files["job.yaml"]
    options = {
        "text": [],
        "terminal": ["--color", "always"],
        "json": ["--problems", "json"],
        "github": ["--problems", "github"],
    }
    printed = {"yaml": job}
    for name, words in options.items():
        with TemporaryDirectory() as folder:
            path = Path(folder) / "job.yaml"
            path.write_text(job)
            result = CliRunner().invoke(main, ["validate", *words, str(path)])
            output = result.stdout if name == "json" else result.output
            printed[name] = unstyle(output.replace(str(path), path.name))
    return printed
