"""Expands `spec.matrix` and `--matrix`: one job file → one job for each combination of values.

As in GitHub Actions, a matrix contains a list of values for each path. All combinations are
rendered, except for the combinations in `exclude`, and in addition to those in `include`.
https://docs.github.com/actions/how-tos/write-workflows/choose-what-workflows-do/run-job-variations

Each combination is named after its values, because names must differ. Labels and an annotation list
the values: `bert` with `args.lr` 1e-4 and `spec.env.SEED` 1 is `bert-lr-1e-4-seed-1`, with the
labels `matrix.mlgen.dev/lr` and `matrix.mlgen.dev/SEED`. A name depends on its combination alone,
unless two names would be equal.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

from mlgen.documents import flags, overrides
from mlgen.documents.document import Document
from mlgen.documents.reader import value_document
from mlgen.input_limits import COMBINATIONS, JOB_BYTES, MATRIX_PATHS
from mlgen.jobfile.model import TrainingJob
from mlgen.jobfile.schema import of_matrix
from mlgen.jobfile.validation import invalid_fields
from mlgen.kubernetes.names import LABEL_MAX, STATEFUL_SET_MAX
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.validation.rows import is_label_value
from mlgen.kubernetes.values import mapping
from mlgen.objects.labels import MATRIX, MATRIX_VALUE
from mlgen.objects.supervisor import NAME as SUPERVISOR
from mlgen.problems import Code, MlgenError, Place, Problem, ValuePath
from mlgen.variants.name_hash import LENGTH, letters

PATH: ValuePath = ("spec", "matrix")
OPTION = Place("--matrix", 0)
EXTRA = ("exclude", "include")

TEXTS = ("annotations", "env", "labels", "nodeSelector")
"""Mappings of strings. For these, a number in a matrix keeps its spelling."""

FIXED: Mapping[ValuePath, str] = {
    ("metadata", "name"): "the values of a combination are added to the name of the job",
    PATH: "a matrix cannot set itself",
}
"""Paths that a matrix cannot set, and why."""

Axes = tuple[tuple[ValuePath, tuple[Any, ...]], ...]
"""The values of each path on the command line."""


@dataclass(frozen=True)
class Value:
    """A value that a combination sets.

    Attributes:
        data: plain data.
        place: in the file, or the option.
    """

    data: Any
    place: Place

    @cached_property
    def text(self) -> str:
        """The value as text, which all combinations share."""
        return flags.text(self.data)


Values = dict[ValuePath, Value]

Texts = Mapping[ValuePath, str]
"""The values of a combination as texts, by path."""


class Combination(NamedTuple):
    """One combination of the values of a matrix.

    Attributes:
        base: the name of the job in the job file.
        name: of the job with these values.
        labels: the values as label values, by label key.
        values: by path.
    """

    base: str
    name: str
    labels: Mapping[str, str]
    values: Mapping[ValuePath, Value]

    @property
    def texts(self) -> dict[str, str]:
        """The values as texts, by written path."""
        return {overrides.written(path): text for path, text in _texts(self.values).items()}


def parse(text: str) -> tuple[ValuePath, tuple[Any, ...]]:
    """Parse `args.lr=[1e-4, 1e-5]` into a path and its values.

    Raises:
        ValueError: the text has another format. The message describes the error.
    """
    name, equals, listed = text.partition("=")
    if not equals:
        raise ValueError('expected path=[value, …], but there is no "="')
    path = _path(name)
    document = value_document(listed)
    if not isinstance(document.data, list):
        example = "1e-4, 1e-5" if "(" in listed else listed
        message = f"expected a list: --matrix '{name}=[{example}]'"
        raise ValueError(message)  # noqa: TRY004 - an invalid option, not a wrong type in code
    return axis(name, [_plain(path, document, (number,)) for number in range(len(document.data))])


def axis(name: str, values: Sequence[Any]) -> tuple[ValuePath, tuple[Any, ...]]:
    """Return a path and its values.

    Raises:
        ValueError: the path is invalid, or there is no value, or the same one twice.
    """
    path = _path(name)
    if not values:
        raise ValueError(f"{name} has no values")
    if None in values:
        raise ValueError(_no_value(path))
    for value, count in Counter(map(flags.text, values)).items():
        if count > 1:
            raise ValueError(f"{name}: duplicate value {value}")
    return path, tuple(values)


def expanded(
    document: Document, axes: Axes
) -> tuple[Document, list[Combination | None], list[Problem]]:
    """Return a job file without its matrix, its combinations, and warnings.

    Args:
        document: a job file, valid or not.
        axes: of the command line. They replace the values of the same paths in the job file.

    Returns:
        Without a matrix, [None] instead of combinations.

    Raises:
        MlgenError: contains every problem of the matrix.
    """
    spec = document.data.get("spec")
    if not isinstance(spec, dict) or ("matrix" not in spec and not axes):
        return document, [None], []
    combined, warnings = _combined(document, axes)
    kept = {name: value for name, value in spec.items() if name != PATH[-1]}
    document = replace(document, data=document.data | {"spec": kept})
    metadata = document.data.get("metadata")
    base = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(base, str) or not base:  # reported when the job file is checked
        return document, [None], warnings
    named = _named(base, [_texts(values) for values in combined], _name_limit(document.data))
    combinations: list[Combination | None] = [
        Combination(base, name, labels, values)
        for values, (name, labels) in zip(combined, named, strict=True)
    ]
    return document, combinations, warnings


def applied(document: Document, combination: Combination | None) -> Document:
    """Return the job file of a combination, with its values, its name, and labels for the values.

    Args:
        document: the job file without its matrix.
        combination: None leaves it unchanged.

    Raises:
        MlgenError: a value cannot be set.
    """
    if combination is None:
        return document
    draft = overrides.Draft(document)
    for path, value in combination.values.items():
        try:
            draft.set(path, value.data, value.place)
        except ValueError as error:
            problem = Problem(path, str(error), "bad-setting", place=value.place)
            raise MlgenError([problem]) from None
    document = draft.document
    metadata = document.data["metadata"]
    additions = {
        "labels": {f"{MATRIX_VALUE}{key}": value for key, value in combination.labels.items()},
        "annotations": {MATRIX: json.dumps(combination.texts, ensure_ascii=False)},
    }
    merged = {
        field: metadata[field] | entries if isinstance(metadata.get(field), dict) else entries
        for field, entries in additions.items()
        if isinstance(metadata.get(field, {}), dict)  # otherwise reported by later checks
    }
    metadata = metadata | merged | {"name": combination.name}
    return replace(document, data=document.data | {"metadata": metadata})


def distinct(problems: Iterable[tuple[Combination | None, Problem]]) -> list[Problem]:
    """Return problems without duplicates that differ only in the name of their combination."""
    unique: dict[Problem, Problem] = {}
    for combination, problem in problems:
        message, hint = problem.message, problem.hint
        if combination:
            name, base = combination.name, combination.base
            message, hint = message.replace(name, base), hint.replace(name, base)
        unique.setdefault(replace(problem, message=message, hint=hint, place=None), problem)
    return list(unique.values())


def with_shared_claims(sets: Sequence[Sequence[Object]]) -> list[list[Object]]:
    """Return the objects of all combinations, with only one copy of a common claim.

    The combinations of a sweep read the same data. The claim is among the objects of the first
    combination, without the labels and annotations that differ.

    Args:
        sets: the objects of each combination.
    """
    claims = [{_claim(item): item for item in items if _claim(item)} for items in sets]
    shared: dict[Any, Object] = {}
    for key, first in claims[0].items() if len(claims) > 1 else ():
        others = [by_key[key] for by_key in claims[1:] if key in by_key]
        if len(others) == len(sets) - 1 and all(o.get("spec") == first.get("spec") for o in others):
            shared[key] = _common(first, others)
    first_set = [shared.get(_claim(item), item) for item in sets[0]]
    return [first_set, *([i for i in items if _claim(i) not in shared] for items in sets[1:])]


def whole(jobs: Sequence[TrainingJob]) -> TrainingJob:
    """Return one job for all combinations of a matrix, without their values.

    It is named as in the job file. If the combinations' names contain a hash, it gets a hash of
    these names.
    """
    job = jobs[0]
    labels = {key: v for key, v in job.labels.items() if not key.startswith(MATRIX_VALUE)}
    annotations = {key: v for key, v in job.annotations.items() if key != MATRIX}
    name = job.written_name
    if job.hashed:
        name = f"{name}-{letters([one.name for one in jobs])}"
    return job._replace(name=name, labels=labels, annotations=annotations)


def _claim(item: Object) -> tuple[Any, Any] | None:
    """Return the namespace and the name of a PersistentVolumeClaim; None for any other object."""
    is_claim = item["kind"] == "PersistentVolumeClaim"
    return (item["metadata"].get("namespace"), item["metadata"]["name"]) if is_claim else None


def _common(item: Object, others: Sequence[Object]) -> Object:
    """Return an object with only the labels and annotations that all others also have."""
    metadata = dict(item["metadata"])
    for field in ("labels", "annotations"):
        entries = [(other["metadata"].get(field) or {}).items() for other in others]
        common = {
            k: v for k, v in metadata.pop(field, {}).items() if all((k, v) in e for e in entries)
        }
        if common:
            metadata[field] = common
    return item | {"metadata": metadata}


def _texts(values: Mapping[ValuePath, Value]) -> dict[ValuePath, str]:
    return {path: value.text for path, value in values.items()}


def _path(name: str) -> ValuePath:
    """Parse a path of a matrix.

    Raises:
        ValueError: it is not a path, or a matrix cannot set it.
    """
    path = overrides.unambiguous(name)
    for fixed, reason in FIXED.items():
        if path[: len(fixed)] == fixed:
            raise ValueError(f"{name} cannot be set: {reason}")
    return path


def _plain(path: ValuePath, document: Document, at: ValuePath) -> Any:
    """Return a value for a path, with its spelling kept if the path only accepts strings.

    Args:
        path: of the value in the job.
        document: contains the value and its spelling.
        at: the path of the value in that document.

    Raises:
        ValueError: the value is missing.
    """
    data = document.item(*at).data
    if data is None:
        raise ValueError(_no_value(path))
    return _typed(path, data, document.texts.get(at, ""))


def _no_value(path: ValuePath) -> str:
    return f'expected a value for {overrides.written(path)}, got nothing; write ""'


def _typed(path: ValuePath, data: Any, text: str = "") -> Any:
    """Return a value with the type of a path: a string, if the path only accepts strings.

    Args:
        path: of the value in the job.
        data: the value.
        text: its spelling, if known.
    """
    is_text = flags.is_flag(path) or path[-2:-1] in [(name,) for name in TEXTS]
    if not is_text or isinstance(data, str | dict | list):
        return data
    return text or flags.text(data)


def _read(document: Document) -> list[tuple[ValuePath, str, ValuePath, Value]]:
    """Return the values of `spec.matrix`.

    Returns:
        For each value: its path in the job file, the part of the matrix, the path that it sets, and
        the value.

    Raises:
        MlgenError: contains every violation of the schema, or else every invalid path or value.
    """
    item = document.item(*PATH)
    invalid = invalid_fields(item, of_matrix())
    if invalid:
        located = (replace(problem, path=(*PATH, *problem.path)) for problem in invalid)
        raise MlgenError(sorted(located, key=lambda problem: problem.place or OPTION))
    written: list[tuple[ValuePath, str, str]] = []
    for part, values in item.data.items():
        for number, value in enumerate(values):
            at = (*PATH, part, number)
            names = [((*at, name), part, name) for name in value] if part in EXTRA else None
            written += [(at, part, part)] if names is None else names
    entries, problems = [], []
    for at, part, name in written:
        try:
            path = _path(name)
            value = Value(_plain(path, document, at), document.place(at))
            entries.append((at, part, path, value))
        except ValueError as error:
            problems.append(document.located(Problem(at, str(error), "bad-setting"), key=True))
    if problems:
        raise MlgenError(list(dict.fromkeys(problems)))
    return entries


def _combined(document: Document, axes: Axes) -> tuple[list[Values], list[Problem]]:
    """Return the values of each combination, and warnings.

    Raises:
        MlgenError: there are too many combinations, none at all, or duplicates.
    """
    listed: dict[ValuePath, list[Value]] = {}
    extra: dict[ValuePath, Values] = {}
    for at, part, path, value in _read(document) if PATH[-1] in document.data["spec"] else ():
        if part in EXTRA:
            extra.setdefault(at[: len(PATH) + 2], {})[path] = value
        else:
            listed.setdefault(path, []).append(value)
    listed |= {
        path: [Value(_typed(path, value), OPTION) for value in values] for path, values in axes
    }
    paths = max((len(listed), *map(len, extra.values())))
    if paths > MATRIX_PATHS:
        message = f"the matrix sets {paths} fields at a time; at most {MATRIX_PATHS} are possible"
        raise _error(document, PATH, message, "too-large", "set them outside of the matrix")
    included = sum(at[-2] == "include" for at in extra)
    crossing = math.prod(map(len, listed.values())) if listed else 0
    count = max(crossing + included, len(extra))
    if count > COMBINATIONS:
        message = f"the matrix has {count} combinations; at most {COMBINATIONS} are rendered"
        raise _error(document, PATH, message, "too-large", "use fewer values")
    crossed = [dict(zip(listed, values, strict=True)) for values in product(*listed.values())]
    combined = [(_texts(values), values) for values in crossed if values]
    warnings = []
    for at, values in sorted(extra.items(), key=lambda entry: entry[0][-2]):  # exclude comes first
        texts = _texts(values)
        if at[-2] == "include":
            if any(texts == others for others, _ in combined):
                message = "duplicate combination"
                raise _error(document, at, message, "combination", "remove it")
            combined.append((texts, values))
            continue
        left = [pair for pair in combined if not texts.items() <= pair[0].items()]
        if len(left) == len(combined):
            message = "has no effect, because no combination has these values"
            problem = Problem(at, message, "no-effect", "remove it", warning=True)
            warnings.append(document.located(problem))
        combined = left
    if not combined:
        message = "the matrix has no combinations"
        raise _error(document, PATH, message, "combination", "add values, or remove it")
    _require_small(document, [texts for texts, _ in combined])
    return [values for _, values in combined], warnings


def _require_small(document: Document, combinations: Iterable[Texts]) -> None:
    """Check the size of the values of all combinations, which are in annotations of each job."""
    size = sum(len(text) for texts in combinations for text in texts.values())
    if size > JOB_BYTES:
        message = f"the values of all combinations have {size >> 20} MiB"
        hint = f"the limit is {JOB_BYTES >> 20} MiB; use fewer or shorter values"
        raise _error(document, PATH, message, "too-large", hint)


def _error(document: Document, path: ValuePath, message: str, code: Code, hint: str) -> MlgenError:
    """Return the error for a value of the matrix, at its place in the job file or the option."""
    if path not in document.places:
        return MlgenError([Problem((), message, code, hint, place=OPTION)])
    return MlgenError([document.located(Problem(path, message, code, hint))])


GENERAL = ("args", "command", "env", "metadata", "roles", "spec")
"""Steps of a path that a name omits, unless two names would be equal."""


def _name_limit(job_file: Mapping[str, Any]) -> int:
    """Return the maximum length of a job's name, so that its objects' names are valid.

    It does not depend on replicas or the kind of a role's workload, so that a change of these does
    not rename jobs.

    Args:
        job_file: its data, valid or not.
    """
    metadata = job_file.get("metadata") or {}
    longest = max(map(len, [SUPERVISOR, *map(str, mapping(job_file, "spec", "roles"))]))
    suffix = LENGTH + 1 if "nameSuffix" in metadata else 0
    return STATEFUL_SET_MAX - longest - 1 - suffix


def _named(
    base: str, combinations: Sequence[Texts], limit: int
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the name of each combination, and its values as label values, by key.

    A name that is too long or not unique gets a hash of the values. If it is too long, it is cut. A
    value that is not a valid label value is written as in the name.

    Args:
        base: the name of the job.
        combinations: their values.
        limit: the maximum length of a name.
    """
    keys, words = _label_keys(combinations), _words(combinations)
    names = [
        "-".join(
            [base, *(f"{_slug(keys[path])}-{words[path, text]}" for path, text in one.items())]
        )
        for one in combinations
    ]
    counts, room = Counter(names), max(limit - LENGTH - 1, len(base))
    for one, full in zip(combinations, names, strict=True):
        name = full
        if len(full) > limit or counts[full] > 1:
            values = sorted((list(path), text) for path, text in one.items())
            name = f"{full[:room].rstrip('-')}-{letters(values)}"
        yield (
            name,
            {keys[p]: text if is_label_value(text) else words[p, text] for p, text in one.items()},
        )


def _label_keys(combinations: Sequence[Texts]) -> dict[ValuePath, str]:
    """Return a key for each path: its last step, or as many steps as are needed to be unique."""
    paths = list(dict.fromkeys(path for one in combinations for path in one))
    short = {path: [step for step in path if step not in GENERAL] or list(path) for path in paths}
    for steps in (short, {path: list(path) for path in paths}):
        for count in range(1, max(map(len, steps.values())) + 1):
            keys = {path: "-".join(map(_label_key, own[-count:])) for path, own in steps.items()}
            if len({_slug(key) for key in keys.values()}) == len(keys):
                return keys
    return {path: f"{_label_key(path[-1])}-{letters(list(path))}" for path in paths}


def _label_key(step: str | int) -> str:
    """Return a step of a path as a part of a label key: `gpu` for `nvidia.com/gpu`."""
    text = re.sub(r"[^A-Za-z0-9._-]", "-", str(step).rpartition("/")[2])
    return text[:LABEL_MAX].strip("-._") or "value"


def _slug(text: str) -> str:
    """Convert a text to lowercase letters, digits and single dashes. -1 becomes `minus-1`."""
    signed = re.sub(r"^-(?=\.?\d)", "minus-", text.lower())
    return re.sub(r"[^a-z0-9]+", "-", signed).strip("-")


def _words(combinations: Sequence[Texts]) -> dict[tuple[ValuePath, str], str]:
    """Return a part of a name for each value of each path.

    Different values have different parts, which are valid label values. A hash is added if two
    would be equal, or one is too long.
    """
    values = dict.fromkeys((path, text) for one in combinations for path, text in one.items())
    counts = Counter((path, _slug(text)) for path, text in values)
    words: dict[tuple[ValuePath, str], str] = {}
    for path, text in values:
        word = _slug(text)
        is_own = counts[path, word] == 1 and 0 < len(word) <= LABEL_MAX
        if not is_own or text[:1] in ("{", "["):
            word = word[: LABEL_MAX - LENGTH - 1].rstrip("-")
            word = "-".join(filter(None, (word, letters(text))))
        words[path, text] = word
    return words
