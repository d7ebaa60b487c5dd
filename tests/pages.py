"""Pages of the documentation, read as sessions: their files, commands, output and links."""

import re
import shlex
import textwrap
from dataclasses import dataclass
from functools import cache

from support import ROOT

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "argo/README.md", *sorted(DOCS.rglob("*.md"))]
GENERATED = {
    DOCS / "reference/commands.md",
    DOCS / "reference/python.md",
    *DOCS.glob("reference/fields/*.md"),
    *DOCS.glob("reference/problems/*.md"),
}
"""Pages that `.ci/reference` writes. The tests of mlgen.reference run their examples."""

OUTSIDE = {
    "argo", "code", "docker", "flux", "git", "helm", "kpt", "kubectl", "kustomize", "mkdocs",
    "pip", "pipx", "pre-commit", "pytest", "uv", "uvx",
}  # fmt: skip
"""Programs that need a cluster, a network or an installation. Lines with them are not run."""

LIVE = {"apply", "delete", "doctor", "list", "logs", "ls", "rerun", "status", "wait"}
"""Commands of mlgen that need a cluster. Their options are checked, but they are not run."""

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
REMARK = re.compile(r"<!-- ([a-z ]+?)(?:: (.*?))? -->\s*\Z")


@dataclass(frozen=True)
class Block:
    """A fenced block with the remarks in the comments directly before it.

    Remarks: `exit: 3`, `output`, `output: stderr`, `cluster`, `not run: REASON`, `invalid`,
    `other: DESCRIPTION` for YAML that is not a job.
    """

    language: str
    title: str | None
    text: str
    remarks: dict
    line: int
    span: tuple

    def lines(self):
        """Return the commands, without comments. A backslash continues a command."""
        joined = re.sub(r"\\\n\s*", "", self.text)
        return [line for line in joined.splitlines() if line.strip() and line.lstrip()[0] != "#"]


@cache
def blocks(path):
    """Return the fenced blocks of a page, in order."""
    text = path.read_text()
    found = []
    for match in FENCE.finditer(text):
        title = re.search(r'title="([^"]+)"', match["info"])
        found.append(
            Block(
                language=match["language"],
                title=title and title[1],
                text=textwrap.dedent(match["text"]),
                remarks=_remarks(text[: match.start()]),
                line=text.count("\n", 0, match.start()) + 1,
                span=match.span("text"),
            )
        )
    return found


def _remarks(before):
    remarks = {}
    while match := REMARK.search(before):
        remarks[match[1]] = match[2] or ""
        before = before[: match.start()]
    return remarks


@dataclass(frozen=True)
class Pipeline:
    """The commands of one line, as lists of words, with its input and output files."""

    commands: list
    reads: str | None = None
    writes: str | None = None


def pipeline(line):
    """Parse a line as a Pipeline; None if it needs a shell."""
    line = re.sub(r"\s+# .*", "", line)
    if re.search(r"[;&`]|\|\||\$[({]|<<|>>|2>", line):
        return None
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    commands, files, words = [[]], {}, iter(list(lexer))
    for word in words:
        if word == "|":
            commands.append([])
        elif word in "<>":
            files[word] = next(words)
        else:
            commands[-1].append(word)
    return Pipeline(commands, files.get("<"), files.get(">"))


@cache
def headings(path):
    """Return the anchors of a page's headings, as mkdocs writes them."""
    text = FENCE.sub("", path.read_text())
    anchors = re.findall(r'(?:id="|\{ ?#)([\w-]+)', text)
    for title in re.findall(r"^#+ +(.*?)(?: *\{.*\})?$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        slug = re.sub(r"[^\w\s-]", "", plain).strip().lower()
        anchor = base = re.sub(r"[-\s]+", "-", slug)
        number = 0
        while anchor in anchors:
            number += 1
            anchor = f"{base}_{number}"
        anchors.append(anchor)
    return anchors


def links(path):
    """Return the targets of a page's links and images, without those in code."""
    text = re.sub(r"(`+)[^`\n].*?\1", "", FENCE.sub("", path.read_text()))
    return re.findall(r"\]\(([^)\s]+)[^)]*\)", text) + re.findall(r'(?:src|href)="([^"]+)"', text)


def pictures():
    """Yield each picture of a job, with the first job.yaml of the page that shows it."""
    pages = [DOCS / f"{name}.md" for name in ("index", "tutorials/laptop", "guides/look")]
    for page in (*pages, *sorted(DOCS.glob("frameworks/*.md"))):
        targets = [
            link
            for link in links(page)
            if re.search(r"\bimages/.*\.svg$", link) and not link.endswith("session.svg")
        ]
        jobs = [block.text for block in blocks(page) if block.title == "job.yaml"]
        yield from ((page.parent / target, jobs[0]) for target in targets[:1])
