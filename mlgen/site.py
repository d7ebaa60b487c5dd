"""`mlgen.toml`, or `[tool.mlgen]` in pyproject.toml → defaults for all job files of a site.

The file nearest to the working folder is used: in it, or in the folders above it, up to that with
`.git`. A value of the command line or of a job file takes precedence over one of the site.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

from mlgen.documents import overrides
from mlgen.documents.document import Document
from mlgen.jobfile.schema import base
from mlgen.jobfile.violations import require_valid
from mlgen.kubernetes.versions import KubeVersion, parse
from mlgen.problems import MlgenError, Place, Problem, ValuePath
from mlgen.records import record, replace

NAME, PYPROJECT = "mlgen.toml", "pyproject.toml"

TABLE = ("tool", "mlgen")
"""The table of pyproject.toml that holds the keys of mlgen.toml."""

NAMESPACE: ValuePath = ("metadata", "namespace")

FIELDS: dict[ValuePath, ValuePath] = {
    ("namespace",): NAMESPACE,
    ("labels",): ("metadata", "labels"),
    ("pod-security",): ("spec", "security", "profile"),
    ("helpers", "wait-image"): ("spec", "helpers", "waitImage"),
    ("helpers", "python-image"): ("spec", "helpers", "pythonImage"),
    ("helpers", "kubectl-image"): ("spec", "helpers", "kubectlImage"),
    ("helpers", "git-image"): ("spec", "helpers", "gitImage"),
}
"""The keys that are defaults of a field of the job file, which describes them."""

PULL_SECRETS: ValuePath = ("spec", "template", "spec", "imagePullSecrets")

OTHERS: dict[str, dict[str, Any]] = {
    "kube-version": {
        "type": "string",
        "description": "Version of Kubernetes to render for, as with `--kube-version`.",
        "examples": ["1.33"],
    },
    "supervisor": {
        "type": "boolean",
        "description": "Whether jobs may have a supervisor; false is that of `--no-supervisor`.",
        "default": True,
        "examples": [False],
    },
    "image-pull-secrets": {
        "type": "array",
        "description": "Names of Secrets with which all images are pulled.",
        "examples": [["registry-key"]],
        "uniqueItems": True,
        "items": {"type": "string", "minLength": 1, "examples": ["registry-key"]},
    },
}
"""The keys that no single field of the job file describes."""

KEY = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
LINE = re.compile(rf"\s*(?:\[\s*)?({KEY}(?:\s*\.\s*{KEY})*)\s*(=|\])")
"""The start of a line of TOML: the name of a table in brackets, or a key."""

POSITION = re.compile(r" \(at line (\d+), column (\d+)\)$")
"""The end of a message of tomllib."""


@record
class Site:
    """The defaults of a site.

    Attributes:
        file: where they were read, relative to the folder for which they were looked up.
        fields: defaults of fields of the job file, by path, each with its place in the file.
        kube_version: of the cluster; None if the file does not set it.
        supervisor: whether jobs may have one; None if the file does not set it.
    """

    file: str
    fields: Mapping[ValuePath, tuple[Any, Place]]
    kube_version: KubeVersion | None = None
    supervisor: bool | None = None

    def without_namespace(self) -> "Site":
        """Return the same defaults without that of the namespace, where a tool decides on it."""
        return replace(self, fields={k: v for k, v in self.fields.items() if k != NAMESPACE})

    def fill(self, document: Document) -> Document:
        """Return a TrainingJob with the site's value of each field that it does not set.

        The place of such a value is in the file of the site.

        Args:
            document: a mapping, which need not be valid.
        """
        parts = [document.data.get(name) for name in ("metadata", "spec")]
        if not all(isinstance(part, dict) for part in parts):
            return document
        for path, (value, place) in self.fields.items():
            if _lacks(document.data, path):
                document = overrides.apply(document, path, value, place)
        return document


def find(folder: Path) -> Site | None:
    """Return the defaults for a folder; None if neither it nor those above it have a file of them.

    Raises:
        MlgenError: with every problem of the file, each with its place.
    """
    start = folder.resolve()
    for parent in (start, *start.parents):
        files = [*_files(parent, start)]
        if len(files) > 1:
            message = f"both {files[0].name} and [tool.mlgen] in {PYPROJECT} set defaults"
            place = Place(os.path.relpath(parent / PYPROJECT, start))
            raise MlgenError([Problem((), message, "combination", "keep one", place=place)])
        if files:
            return _site(files[0])
        if (parent / ".git").exists():
            break
    return None


def schema() -> dict[str, Any]:
    """Return the JSON Schema of mlgen.toml (draft-07): the keys, with their descriptions."""
    job = base()
    known: dict[str, Any] = {}
    helpers: dict[str, Any] = {}
    for key, path in FIELDS.items():
        node: Any = job
        for name in path:
            node = node["properties"][name]
        (known if len(key) == 1 else helpers)[str(key[-1])] = node
    known["helpers"] = job["properties"]["spec"]["properties"]["helpers"] | {
        "examples": [{"wait-image": "registry.example/busybox:1.36"}],
        "properties": helpers,
    }
    return {
        "$schema": job["$schema"],
        "title": NAME,
        "type": "object",
        "description": "Defaults for all job files of a site.",
        "additionalProperties": False,
        "properties": OTHERS | known,
        "definitions": {"labelValue": job["definitions"]["labelValue"]},
    }


@record
class _File:
    """A file of TOML: its name in a folder, its name in messages, and its content."""

    name: str
    shown: str
    document: Document


def _files(folder: Path, start: Path) -> Iterator[_File]:
    """Return the files of a folder that set defaults, by their names relative to another one."""
    for name in (NAME, PYPROJECT):
        path, shown = folder / name, os.path.relpath(folder / name, start)
        try:
            text = path.read_text(encoding="utf-8") if path.is_file() else ""
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", "") or "is not UTF-8 text"
            problem = Problem((), f"cannot be read: {reason}", "unreadable", place=Place(shown))
            raise MlgenError([problem]) from None
        if name == NAME and path.is_file():
            yield _File(name, shown, _toml(text, shown))
        elif TABLE[-1] in text:  # importing a parser of TOML takes longer
            document = _toml(text, shown)
            table = document.data.get(TABLE[0])
            if isinstance(table, dict) and TABLE[1] in table:
                yield _File(name, shown, document.item(*TABLE))


def _toml(text: str, shown: str) -> Document:
    """Return the content of a file of TOML, with the places of its keys.

    Raises:
        MlgenError: it is not valid TOML.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        position = POSITION.search(str(error))
        place = Place(shown, *map(int, position.groups())) if position else Place(shown)
        message = f"is not valid TOML: {POSITION.sub('', str(error))}"
        raise MlgenError([Problem((), message, "not-toml", place=place)]) from None
    places = dict(_places(text, shown))
    return Document(data, places, places)


def _places(text: str, shown: str) -> Iterator[tuple[ValuePath, Place]]:
    """Yield the path of each key that starts a line, with its place, and those around it."""
    table: ValuePath = ()
    seen: set[ValuePath] = {()}
    yield (), Place(shown, 1)
    for number, line in enumerate(text.splitlines(), 1):
        start = LINE.match(line)
        if not start:
            continue
        keys = tuple(key.strip("\"'") for key in re.findall(KEY, start[1]))
        path = keys if start[2] == "]" else (*table, *keys)
        table = keys if start[2] == "]" else table
        for length in range(1, len(path) + 1):
            if path[:length] not in seen:  # lines of a text may look like keys
                seen.add(path[:length])
                yield path[:length], Place(shown, number, start.start(1) + 1)


def _site(file: _File) -> Site:
    """Return the defaults in a file.

    Raises:
        MlgenError: with every problem of its keys and values.
    """
    document, data = file.document, file.document.data
    require_valid(document, schema())
    fields: dict[ValuePath, tuple[Any, Place]] = {}
    for key, path in FIELDS.items():
        if not _lacks(data, key):
            value = reduce(lambda holder, step: holder[step], key, data)
            entries = value if isinstance(value, dict) else {}
            fields |= {(*path, k): (v, document.place((*key, k))) for k, v in entries.items()}
            fields |= {} if entries or value == {} else {path: (value, document.place(key))}
    secrets = [{"name": name} for name in data.get("image-pull-secrets", ())]
    if secrets:
        fields[PULL_SECRETS] = (secrets, document.place(("image-pull-secrets",)))
    return Site(file.shown, fields, _version(document), data.get("supervisor"))


def _version(document: Document) -> KubeVersion | None:
    """Return the version of Kubernetes, None if there is none."""
    text = document.data.get("kube-version")
    try:
        return None if text is None else parse(text)
    except ValueError as error:
        problem = Problem(("kube-version",), str(error), "bad-value")
        raise MlgenError([document.located(problem)]) from None


def _lacks(data: Any, path: ValuePath) -> bool:
    """Return True if a value can be set at a path and is not; null counts as not set."""
    for step in path:
        if data is None:
            return True
        if not isinstance(data, dict):
            return False
        data = data.get(step)
    return data is None
