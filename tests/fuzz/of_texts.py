"""Targets for texts with other characters."""

import json
import re
from pathlib import Path
from typing import Any
from unittest import mock

import yaml
from fuzz.checks import (
    JOB,
    FlawError,
    document_of,
    flawless,
    of_files,
    parsed,
    readable,
    require,
    run_flawless,
    same,
    target,
)
from fuzz.commands import FILE, Command, flaws, run
from support import FILES, FIXTURES, RESOURCES, ROOT, apply, load

from mlgen import dialects
from mlgen.documents import overrides
from mlgen.documents.document import Document
from mlgen.documents.files import Text, chunks, is_blank, split, without_marker
from mlgen.live.kubectl import Kubectl
from mlgen.live.kubectl import Outcome as Answer
from mlgen.output.round_trip import styled_text, styles
from mlgen.output.yaml import yaml_text
from mlgen.problems import ValuePath
from mlgen.shell import is_python, needs_shell, simple_commands, text_index


@target(lambda: of_files(FILES, 6))
def render_text(text: str) -> None:
    """A text of any characters renders or causes a problem."""
    flawless("render", text)


@target(lambda: [f"---\n# Source: a/b.yaml\n{text}" for text in of_files(FILES, 12)])
def helm_text(text: str) -> None:
    """The post-renderer reads a stream, and passes through everything except jobs."""
    status, out = flawless("helm-post-render", text)
    if not status and "Job" not in text and "\\" not in text:
        is_same = out.encode("utf-8", "surrogateescape") == text.encode("utf-8", "surrogatepass")
        require(is_same, "a stream without a job has changed", out)


@target(lambda: [part for text in of_files(FILES, 3) for _, part in split(text)])
def readers(text: str) -> None:
    """PyYAML, which reads every scalar as a string, reads the same documents."""
    for _, part in split(text):
        document = document_of(part)
        if not document or "<<" in part:
            continue
        try:
            data = yaml.load(part, yaml.CBaseLoader)
        except TypeError:  # a key is a list
            continue
        require(same(_spelled(document, ()), data or ""), "reads", document.data)


def _spelled(document: Document, path: ValuePath) -> Any:
    """Return the value at a path with each scalar as it is written."""
    data = document.item(*path).data
    if isinstance(data, dict):
        return {key: _spelled(document, (*path, key)) for key in data}
    if isinstance(data, list):
        return [_spelled(document, (*path, number)) for number in range(len(data))]
    return document.texts.get(path, data) or ""


@target(lambda: of_files(FILES, 12))
def documents(text: str) -> None:
    """The documents of a stream, joined, are the stream again."""
    lines = re.findall(r"[^\n\r]*(?:\r\n|\n|\r)|[^\n\r]+", text)
    by_lines, by_text = list(chunks(lines)), list(split(text))
    require(by_lines == by_text, "is split in another way", by_lines)
    require("".join(part for _, part in by_text) == text, "loses text", by_text)
    for _, part in by_text:
        is_alike = is_blank(part) == is_blank(part.encode("utf-8", "replace"))
        require(is_alike, "is blank as text or as bytes", part)


def _items() -> list[str]:
    """Return Lists as `kubectl get -o yaml` prints them."""
    head, end = "apiVersion: v1\nitems:\n", "kind: List\nmetadata:\n  resourceVersion: ''\n"
    items = [yaml_text([load(JOB)]).removeprefix("---\n"), *of_files(RESOURCES, 12)]
    rows = ["- " + item.partition("\n---")[0].strip().replace("\n", "\n  ") for item in items]
    return [f"{head}{row}\n- a: b\n{rows[0]}\n{end}" for row in rows]


@target(_items)
def lists(text: str) -> None:
    """The items of a List of jobs are the same, read one by one or together."""
    whole = document_of(text)
    if not whole or not isinstance(whole.data, dict):
        return
    parts = list(dialects.documents(Text("job.yaml", text)))
    read = [part.data for part in parts if isinstance(part, Document) and not part.problems]
    expected = [whole.data.get("items"), [whole.data]]
    require(
        len(read) < len(parts) or any(same(read, each) for each in expected), "other items", read
    )


@target(lambda: ["a=1", "spec.roles.worker.args[0]=--lr", r"metadata.labels.a\.b/c=x", "args.lr=1"])
def settings(text: str) -> None:
    """A setting is applied or raises a ValueError. A path is written as it was read."""
    try:
        path, value = overrides.parse(text)
        document = document_of(JOB)
        assert document
        apply(document, path, value)
    except ValueError:
        return
    require(overrides.parse_path(overrides.written(path)) == path, "is another path", path)


@target(lambda: ["args.lr=[1e-4, 1e-5]", "spec.roles.worker.replicas=[1, 2]", "spec.image={a: b}"])
def matrices(text: str) -> None:
    """A matrix on the command line renders or causes a problem."""
    _option("--matrix", text)


@target(lambda: ["spec.image=b", "spec.roles.worker.replicas=8", "spec.env.A=x", "args.lr=2"])
def set_options(text: str) -> None:
    """A setting on the command line renders or causes a problem."""
    _option("--set", text)


def _option(name: str, text: str) -> None:
    Path(FILE).write_text(JOB)
    command = Command(("render", FILE, name, text), statuses=(0, 1, 2))
    run_flawless(command)


PARAMETERS = [
    '[{"name": "files", "array": ["job.yaml"]}, {"name": "set", "map": {"spec.image": "b"}}]',
    '[{"name": "set", "map": {"args.lr": "{{=1}}", "metadata.name": "x"}, "array": []}]',
]


@target(lambda: PARAMETERS)
def argocd_text(text: str) -> None:
    """Argo CD passes the parameters of an Application as JSON."""
    plain = text.replace("\0", " ").encode("utf-8", "replace").decode()
    environment = {"ARGOCD_APP_PARAMETERS": plain}
    Path(FILE).write_text(JOB)
    for word in ("init", "generate", "parameters"):
        command = Command(("argocd", word), prints_with_errors=word == "parameters")
        run_flawless(command, environment=environment)


@target(lambda: [text.replace("\n", "  # c\n# d\n", 9) for text in of_files(RESOURCES, 3)])
def comment_text(text: str) -> None:
    """Comments move with their values, and do not change them."""
    status, out = flawless("convert", text)
    if not status and readable(text):
        bare = "".join(row for row in out.splitlines(keepends=True) if row.lstrip()[:1] != "#")
        require(same(parsed(out), parsed(bare)), "a comment is data", out)
    for _, part in split(text):
        if document_of(without_marker(part)):
            styled_text(load(JOB), styles(without_marker(part)))


@target(lambda: of_files(FIXTURES, 9))
def writer(text: str) -> None:
    """Every reader reads the same values that were written."""
    document = document_of(text)
    if document and isinstance(document.data, dict):
        out = yaml_text([document.data])
        require(same(parsed(out), [document.data]), "libyaml reads something else", out)
        again = document_of(without_marker(out))
        require(again and same(again.data, document.data), "mlgen reads something else", out)


@target(lambda: ["torchrun --nproc-per-node=2 a.py", "cd /a && exec python -m b", 'a $(b) "c\'d"'])
def shell(text: str) -> None:
    """Any shell text can be split."""
    for words in simple_commands(text):
        text_index(words)
        is_python(words[0])
    needs_shell(text)
    job = load(JOB)
    for command in (["sh", "-c", text], text.split() or [text]):
        job["spec"]["command"] = command
        flawless("render", json.dumps(job))


LIVE = ROOT / "tests/live"

MOMENTS = {"waiting": "waiting", "restarted": "ddp", "restarting": "ddp", "oom": "oom"}
"""The job file of some recordings of a cluster."""

WORDS = ("message", "reason", "image", "note")
"""Fields with text from programs in the cluster."""


@target(lambda: ["exit code 137", '{"phase": "Failed", "restarts": 1}', "a: b\nc", "1", "2026"])
def cluster(text: str) -> None:
    """Data from a cluster can be printed."""
    text = text.encode("utf-8", "replace").decode()
    for moment, job in MOMENTS.items():
        recorded = json.loads((LIVE / f"recorded/{moment}.json").read_text())
        objects, events = (_worded(recorded[name], text) for name in ("objects", "events"))

        def outcome(_: Any, *words: str, found: Any = (objects, events), **__: Any) -> Answer:
            return Answer(0, json.dumps({"items": found["events" in words], "kind": "List"}), "")

        with mock.patch.object(Kubectl, "outcome", outcome):
            command = Command(("status", str(LIVE / f"jobs/{job}.yaml")), is_report=True)
            for found in flaws(command, run(*command.words)):
                raise FlawError(f"{moment}: {found}")


def _worded(value: Any, text: str, name: str = "") -> Any:
    """Return a value with a text in all fields that programs in the cluster can set."""
    if isinstance(value, dict):
        chosen = name in ("data", "annotations")
        return {key: text if chosen else _worded(value[key], text, key) for key in value}
    if isinstance(value, list):
        return [_worded(item, text) for item in value]
    return text if name in WORDS else value
