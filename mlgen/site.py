"""`mlgen.toml`, or `[tool.mlgen]` in pyproject.toml → defaults for all job files of a site.

mlgen uses the nearest file: in the working folder or a folder above it, up to the folder with
`.git`. Values of the command line or of a job file take precedence over the site's values.
"""

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mlgen import resources
from mlgen.documents import flags, overrides
from mlgen.documents.document import Document, is_too_deep, marked
from mlgen.input_limits import DEPTH, SITE_BYTES
from mlgen.jobfile.schema import base, fields, inlined, steps_of, target
from mlgen.jobfile.validation import require_valid
from mlgen.kubernetes.pod_security import LEVELS
from mlgen.kubernetes.values import mapping, value_at
from mlgen.kubernetes.versions import KubeVersion, parse
from mlgen.problems import MlgenError, Place, Problem, ValuePath

NAME, PYPROJECT = "mlgen.toml", "pyproject.toml"

TABLE = ("tool", "mlgen")
"""The table of pyproject.toml with the keys of mlgen.toml."""

NAMESPACE: ValuePath = ("metadata", "namespace")

PYTHON_IMAGE: ValuePath = ("spec", "helpers", "pythonImage")
SUPERVISOR_IMAGE: ValuePath = ("spec", "helpers", "supervisorImage")

PROFILE: ValuePath = ("spec", "security", "profile")
PULL_SECRETS: ValuePath = ("spec", "template", "spec", "imagePullSecrets")

DOTTED = re.compile(r"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*)+""")
"""The steps of a key but the last one. tomllib needs memory for each pair of them."""

KEY = re.compile(r"""(\[?)\[?([\w."'\t -]+)[=\]]""")
"""The start of a line with a key, or with a table in brackets."""

STEPS = 5
"""The steps of the longest key that a message can refer to: `tool.mlgen.helpers.labels.team`."""

POSITION = re.compile(r" \(at line (\d+), column (\d+)\)$")
"""The end of a message of tomllib."""


class Site(NamedTuple):
    """The defaults of a site.

    Attributes:
        file: the path of the file, relative to the working folder.
        fields: defaults for fields of the job file, by path, each with its location in the file.
        kube_version: the cluster's Kubernetes version; None if the file does not set it.
        supervisor: True if jobs may have a supervisor; None if the file does not set it.
        only_jobs: True if other objects are an error; None if the file does not set it.
        strict: True if warnings are errors; None if the file does not set it.
        enforced: the keys whose values job files cannot change.
        sets_namespace: True if jobs without a namespace get the site's.
    """

    file: str
    fields: Mapping[ValuePath, tuple[Any, Place]]
    kube_version: KubeVersion | None = None
    supervisor: bool | None = None
    only_jobs: bool | None = None
    strict: bool | None = None
    enforced: tuple[str, ...] = ()
    sets_namespace: bool = True

    @property
    def namespace(self) -> str | None:
        """The namespace of jobs that have none."""
        namespace: str | None = self.fields.get(NAMESPACE, (None,))[0]
        return namespace if self.sets_namespace else None

    def without_namespace(self) -> "Site":
        """Return the defaults for a tool that sets the namespace. Job files must not change it."""
        return self._replace(sets_namespace=False)

    def require_namespace(self, namespace: str) -> None:
        """Raise a ValueError if the site enforces another namespace."""
        own, _ = self.fields.get(NAMESPACE, (namespace, None))
        if "namespace" in self.enforced and own != namespace:
            raise ValueError(f"{self.file} enforces {own}, got {namespace}")

    def fill(self, document: Document) -> Document:
        """Return a TrainingJob with the site's value of each field that it does not set.

        The location of such a value is in the site's file.

        Args:
            document: a mapping, which need not be a valid job.

        Raises:
            MlgenError: it sets a value that differs from an enforced value.
        """
        parts = [document.data.get(name) for name in ("metadata", "spec")]
        if not all(isinstance(part, dict) for part in parts):
            return document
        unset = () if self.sets_namespace else (NAMESPACE,)
        missing = [p for p in self.fields if p not in unset and _lacks(document.data, p)]
        if missing:
            draft = overrides.Draft(document)
            for path in missing:
                draft.set(path, *self.fields[path])
            document = draft.document
        changes = [*self._changes(document)]
        if changes:
            raise MlgenError(changes)
        return document

    def _changes(self, document: Document) -> Iterator[Problem]:
        """Yield an error for each value of a job file that differs from an enforced value."""
        # The supervisor image replaces the Python image. So if a site enforces only the Python
        # image, a job file must not set the supervisor image.
        replaced = PYTHON_IMAGE in self.fields and SUPERVISOR_IMAGE not in self.fields
        if "helpers" in self.enforced and replaced and value_at(document.data, SUPERVISOR_IMAGE):
            message = f"{self.file} enforces helpers.python-image, which this image would override"
            problem = Problem(SUPERVISOR_IMAGE, message, "combination", "remove it")
            yield document.located(problem)
        keys = resources.table("site.schema")["properties"]
        prefixes = [_path(keys[key]) for key in self.enforced]
        for path, (value, _) in self.fields.items():
            if not any(path[: len(prefix)] == prefix for prefix in prefixes):
                continue
            written = value_at(document.data, path)
            allowed = LEVELS[LEVELS.index(value) :] if path == PROFILE else (value,)
            if written is not None and written not in allowed:
                own, theirs = map(flags.text, (value, written))
                message = f"{self.file} enforces {own}, got {theirs}"
                hint = f"write {own}, or remove it"
                yield document.located(Problem(path, message, "combination", hint))


def find(folder: Path, *, links: bool = True) -> Site | None:
    """Return the site's defaults for a folder; None if no file sets them.

    Args:
        folder: the working folder.
        links: True to follow symbolic links, which may lead to another user's file.

    Raises:
        MlgenError: the file has errors; lists all of them with their locations.
    """
    start = folder.resolve()
    for parent in (start, *start.parents):
        files = [*_files(parent, start, links=links)]
        if len(files) > 1:
            message = f"both {NAME} and [tool.mlgen] in {PYPROJECT} set defaults"
            place = Place(os.path.relpath(parent / PYPROJECT, start))
            raise MlgenError([Problem((), message, "combination", "keep one", place=place)])
        if files:
            return _site(files[0])
        if (parent / ".git").exists():
            break
    return None


def schema() -> dict[str, Any]:
    """Return the JSON Schema of mlgen.toml (draft-07): the keys, with their descriptions."""
    own = {k: v for k, v in resources.table("site.schema").items() if k != "$comment"}
    whole: dict[str, Any] = inlined(own, lambda reference: target(reference, base()))
    return whole


def _path(node: Mapping[str, Any]) -> ValuePath:
    """Return the path of a key's field in the job file."""
    return tuple(step for step in steps_of(node["$ref"]) if step != "properties")


def _fields() -> Iterator[tuple[ValuePath, ValuePath]]:
    """Yield each key that sets a default of the job file, with the field's path there."""
    for key, node in fields(resources.table("site.schema")):
        if "$ref" in node and "properties" not in node:
            yield key, _path(node)


def _files(folder: Path, start: Path, *, links: bool) -> Iterator[Document]:
    """Yield the files of a folder that set defaults. Their names are relative to `start`."""
    for name in (NAME, PYPROJECT):
        path, shown = folder / name, os.path.relpath(folder / name, start)
        if path.is_symlink() and not links:
            hint = "replace it with the file that it points to"
            message = "is a symbolic link, which mlgen does not follow"
            raise MlgenError([Problem((), message, "unreadable", hint, place=Place(shown))])
        try:
            text = _text(path, shown) if path.is_file() else ""
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", "") or "is not UTF-8 text"
            problem = Problem((), f"cannot be read: {reason}", "unreadable", place=Place(shown))
            raise MlgenError([problem]) from None
        if name == NAME and path.is_file():
            yield _toml(text, shown)
        elif TABLE[-1] in text:  # avoids the slow import of a TOML parser
            document = _toml(text, shown)
            if TABLE[1] in mapping(document.data, TABLE[0]):
                yield document.item(*TABLE)


def _text(path: Path, shown: str) -> str:
    """Return the text of a file.

    Raises:
        MlgenError: the file is too large.
        OSError: it cannot be read.
        UnicodeDecodeError: it is not UTF-8.
    """
    with path.open("rb") as stream:
        data = stream.read(SITE_BYTES + 1)
    if len(data) > SITE_BYTES:
        raise _too_large(f"is larger than {SITE_BYTES >> 10} KiB", shown)
    return data.decode()


def _too_large(message: str, shown: str) -> MlgenError:
    """Return the error of a file that exceeds a bound."""
    return MlgenError([Problem((), message, "too-large", place=Place(shown))])


def _too_deep(shown: str) -> MlgenError:
    return _too_large(f"is nested more than {DEPTH} levels deep", shown)


def _toml(text: str, shown: str) -> Document:
    """Return the content of a TOML file as plain data, with the locations of its keys.

    A date is a text, as in YAML.

    Raises:
        MlgenError: the file is not valid TOML, or too large.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    if any(key.count(".") >= DEPTH for key in DOTTED.findall(text)):
        raise _too_deep(shown)
    try:
        data = json.loads(json.dumps(tomllib.loads(text), default=str))
    except tomllib.TOMLDecodeError as error:
        position = POSITION.search(str(error))
        place = Place(shown, *map(int, position.groups())) if position else Place(shown)
        message = f"is not valid TOML: {POSITION.sub('', str(error))}"
        raise MlgenError([Problem((), message, "not-toml", place=place)]) from None
    except (RecursionError, ValueError):  # Python rejects integers of thousands of digits
        message = "a value is nested too deeply, or has too many digits"
        raise _too_large(message, shown) from None
    if is_too_deep(data):
        raise _too_deep(shown)
    places = _places(text, shown)
    return Document(data, marked(places, places))


def _places(text: str, shown: str) -> dict[ValuePath, Place]:
    """Return the line of each key that starts a line, and of the tables that contain it.

    A line of a text can look like a key. The first line with a key wins.
    """
    places: dict[ValuePath, Place] = {(): Place(shown, 1)}
    table: ValuePath = ()
    for number, line in enumerate(text.split("\n"), 1):
        if not (key := KEY.match(line.strip())):
            continue
        steps = tuple(step.strip(" \t\"'") for step in key[2].split("."))
        path = steps if key[1] else table + steps
        table = steps if key[1] else table
        for length in range(1, min(len(path), STEPS) + 1):
            places.setdefault(path[:length], Place(shown, number))
    return places


def _site(document: Document) -> Site:
    """Return the defaults in a file.

    Raises:
        MlgenError: its keys or values have errors.
    """
    data = document.data
    require_valid(document, schema())
    fields: dict[ValuePath, tuple[Any, Place]] = {}
    for key, path in _fields():
        value = value_at(data, key)
        if isinstance(value, dict):
            fields |= {(*path, k): (v, document.place((*key, k))) for k, v in value.items()}
        elif value is not None:
            fields[path] = (value, document.place(key))
    secrets = [{"name": name} for name in data.get("image-pull-secrets", ())]
    if secrets:
        fields[PULL_SECRETS] = (secrets, document.place(("image-pull-secrets",)))
    for number, name in enumerate(data.get("enforce", ())):
        if name not in data:
            message, hint = f"the file does not set {name}", f"set {name}, or remove it here"
            problem = Problem(("enforce", number), message, "combination", hint)
            raise MlgenError([document.located(problem)])
    try:
        version = parse(data["kube-version"]) if "kube-version" in data else None
    except ValueError as error:
        problem = Problem(("kube-version",), str(error), "bad-value")
        raise MlgenError([document.located(problem)]) from None
    return Site(
        document.place(()).file,
        fields,
        version,
        data.get("supervisor"),
        data.get("only-jobs"),
        data.get("strict"),
        tuple(data.get("enforce", ())),
    )


def _lacks(data: Any, path: ValuePath) -> bool:
    """Return True if a path is not set, or null, and can be set."""
    for step in path:
        if data is None:
            return True
        if not isinstance(data, dict):
            return False
        data = data.get(step)
    return data is None
