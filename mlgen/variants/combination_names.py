"""The names and labels of the combinations of a matrix, made of their values.

`bert` with `args.lr` 1e-4 and `spec.env.SEED` 1 is `bert-lr-1e-4-seed-1`, with the labels
`matrix.mlgen.dev/lr` and `matrix.mlgen.dev/SEED`.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mlgen.kubernetes.names import LABEL_MAX, STATEFUL_SET_MAX
from mlgen.kubernetes.validation.syntax import is_label_value
from mlgen.objects.supervisor import NAME as SUPERVISOR
from mlgen.problems import ValuePath
from mlgen.variants.name_hash import LENGTH, letters

GENERAL = ("args", "command", "env", "metadata", "roles", "spec")
"""Steps of a path that a name leaves out, unless two names would be the same."""

Texts = Mapping[ValuePath, str]
"""The values of a combination as texts, by path."""


def name_limit(job_file: Mapping[str, Any]) -> int:
    """Return the length up to which the name of a job fits in the names of its objects.

    It does not depend on replicas or on what a role is rendered as, so that a change of these
    renames no job.

    Args:
        job_file: its data, which need not be valid.
    """
    spec, metadata = (job_file.get(field) or {} for field in ("spec", "metadata"))
    roles = spec.get("roles") if isinstance(spec, dict) else None
    longest = max(map(len, [SUPERVISOR, *map(str, roles if isinstance(roles, dict) else ())]))
    suffix = LENGTH + 1 if "nameSuffix" in metadata else 0
    return STATEFUL_SET_MAX - longest - 1 - suffix


def names(base: str, combinations: Sequence[Texts], limit: int) -> list[str]:
    """Return the name of each combination.

    A name that is too long is cut, and gets a hash of the values, as does one that is not unique.

    Args:
        base: the name of the job.
        combinations: their values.
        limit: the number of characters of a name.
    """
    keys = {path: _slug(key) for path, key in _keys(combinations).items()}
    words = _words(combinations)
    full = [
        "-".join([base, *(f"{keys[path]}-{words[path, text]}" for path, text in one.items())])
        for one in combinations
    ]
    counts = Counter(full)
    room = max(limit - LENGTH - 1, len(base))
    return [
        name
        if len(name) <= limit and counts[name] == 1
        else f"{name[:room].rstrip('-')}-{letters(sorted((list(p), t) for p, t in one.items()))}"
        for name, one in zip(full, combinations, strict=True)
    ]


def labels_of(combinations: Sequence[Texts]) -> list[dict[str, str]]:
    """Return the values of each combination as label values, by key.

    A text that is no label value is there as in the name.
    """
    keys, words = _keys(combinations), _words(combinations)
    return [
        {
            keys[path]: text if is_label_value(text) else words[path, text]
            for path, text in one.items()
        }
        for one in combinations
    ]


def _keys(combinations: Sequence[Texts]) -> dict[ValuePath, str]:
    """Return a key for each path: its last step, or as many as make it unique."""
    paths = list(dict.fromkeys(path for one in combinations for path in one))
    short = {path: [step for step in path if step not in GENERAL] or list(path) for path in paths}
    for steps in (short, {path: list(path) for path in paths}):
        for count in range(1, max(map(len, steps.values())) + 1):
            keys = {path: "-".join(map(_key, own[-count:])) for path, own in steps.items()}
            if len({_slug(key) for key in keys.values()}) == len(keys):
                return keys
    return {path: f"{_key(path[-1])}-{letters(list(path))}" for path in paths}


def _key(step: str | int) -> str:
    """Return a step of a path as a part of a label's key: `gpu` for `nvidia.com/gpu`."""
    text = re.sub(r"[^A-Za-z0-9._-]", "-", str(step).rpartition("/")[2])
    return text[:LABEL_MAX].strip("-._") or "value"


def _slug(text: str) -> str:
    """Return a text in lower-case letters, digits and single dashes; `minus-1` for -1."""
    signed = re.sub(r"^-(?=\.?\d)", "minus-", text.lower())
    return re.sub(r"[^a-z0-9]+", "-", signed).strip("-")


def _words(combinations: Sequence[Texts]) -> dict[tuple[ValuePath, str], str]:
    """Return each value of each path as a part of a name, and different values differently."""
    found = dict.fromkeys((path, text) for one in combinations for path, text in one.items())
    counts = Counter((path, _slug(text)) for path, text in found)
    return {
        (path, text): "-".join(_unique(text, counts[path, _slug(text)])) for path, text in found
    }


def _unique(text: str, count: int) -> Iterator[str]:
    """Return the parts of a value's word: a hash if the value has no word of its own."""
    word = _slug(text)
    if word:
        yield word
    if count > 1 or not word or len(word) > LABEL_MAX or text[:1] in ("{", "["):
        yield letters(text)
