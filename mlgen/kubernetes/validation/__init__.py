"""The API server's validation: an object → the rules that it breaks.

The schema (mlgen/kubernetes/schema.py) checks the structure of an object. These rules check its
values. mlgen/checks/references.py checks references between objects.
https://kubernetes.io/docs/reference/kubernetes-api/

`schemas/kubernetes/rules.json` contains the rules as rows. After `at`, a row contains the name and
the first argument of a rule in `rows`, or `check`: a function in this package, for rules
that no row can express. The other columns are attributes of `rows.Row`, or arguments of the rule.
`unchecked` lists fields whose content is not checked: the API server may drop or set them.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.validation import pods, rows, workloads
from mlgen.kubernetes.validation.rows import Plans, Row, Spot
from mlgen.kubernetes.values import mapping
from mlgen.kubernetes.versions import KubeVersion, names, parse
from mlgen.problems import Problem, ValuePath
from mlgen.resources import table

MODULES = {"pods": pods, "rows": rows, "workloads": workloads}
TYPES = {"dict": dict, "list": list, "str": str}
COLUMNS = ("when", "unless", "since", "until", "empty", "omitted", "of", "warning")


def broken_rules(item: Object, version: KubeVersion) -> Iterator[Problem]:
    """Yield the problems of an object, except for the syntax and length of its name.

    Args:
        item: the object. A value of the wrong type counts as omitted.
        version: the version of the cluster.
    """
    kind, meta = str(item.get("kind")), mapping(item, "metadata")
    plans, spot = _plans(version), Spot((), item, kind, version)
    yield from plans.broken_by(Spot(("metadata",), meta, "Metadata", version))
    if kind not in names():
        spot = Spot(("metadata",), meta, "ObjectMeta", version, spot)
    yield from plans.broken_by(spot)


@cache
def _plans(version: KubeVersion) -> Plans:
    """Return the rules of rules.json for a version."""
    data = table("kubernetes/rules")
    return Plans(data["rules"], _row, data["unchecked"], pods.is_skipped, version)


def _row(at: str, **columns: Any) -> Row:
    """Return a row of the table."""
    options = {name: columns.pop(name) for name in COLUMNS if name in columns}
    for name in {"since", "until"} & options.keys():
        options[name] = parse(options[name])
    if "of" in options:
        options["of"] = TYPES[options["of"]]
    name = next(iter(columns))
    if name == "check":
        module, _, function = columns[name].partition(".")
        return Row(at, getattr(MODULES[module], function), **options)
    check, argument = getattr(rows, name), columns.pop(name)

    def rule(path: ValuePath, value: Any, spot: Spot) -> Iterator[Problem]:
        return check(path, value, argument, spot, **columns)  # type: ignore[no-any-return]

    return Row(at, rule, **{"omitted": name == "required", **options})
