"""The values that the API server sets for fields that a manifest omits.

Adding a field with its default has no effect. Removing a field resets it to its default.

`schemas/kubernetes/defaults.json` contains the defaults as trees, by API group and kind. The value
of a field is its default, or the tree of its own fields. The value of a list is the tree of its
items. `$always` marks a structure that the API server creates even if a manifest omits it.
`"$Pod"` refers to a tree in `parts`, and `$like` adds the fields of such a tree. `"$completions"`
is a function of this module.

Sources: the Go types, and the functions `SetDefaults_*` in
https://github.com/kubernetes/kubernetes/tree/v1.34.4/pkg/apis (defaults.go in core/v1, batch/v1,
apps/v1 and rbac/v1). A field with `omitempty` that is not a pointer has its zero value as default,
because the two are indistinguishable.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from mlgen.resources import table


class Always(dict[str, Any]):
    """The tree of a structure that the API server creates even if a manifest omits it."""


@cache
def defaults(group: str, kind: str) -> Mapping[str, Any]:
    """Return the tree of a kind's defaults; {} if there are none.

    Some defaults are functions: of the mapping that contains the field.
    """
    tree: Mapping[str, Any] = _tree(
        table("kubernetes/defaults")["kinds"].get(f"{group}/{kind}".lstrip("/"), {})
    )
    return tree


def _tree(value: Any) -> Any:
    """Return a default or a tree of defaults, with `$` references resolved."""
    if isinstance(value, str) and value.startswith("$"):
        name = value.removeprefix("$")
        return FUNCTIONS.get(name) or _tree(table("kubernetes/defaults")["parts"][name])
    if isinstance(value, list):
        return [_tree(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {name: _tree(field) for name, field in value.items() if not name.startswith("$")}
    if "$like" in value:
        fields = _tree(value["$like"]) | fields
    return Always(fields) if "$always" in value else fields


def pull_policy(container: Mapping[str, Any]) -> str:
    """Return Always for the tag `latest`, explicit or implied, else IfNotPresent."""
    name, _, digest = str(container.get("image", "")).partition("@")
    _, _, tag = name.rpartition("/")[2].partition(":")
    return "Always" if tag == "latest" or not (tag or digest) else "IfNotPresent"


def completions(spec: Mapping[str, Any]) -> int | None:
    """Return 1, or None for a Job with parallelism: a work queue."""
    return None if "parallelism" in spec else 1


def backoff_limit(spec: Mapping[str, Any]) -> int:
    """Return 6, or the largest int32 for a Job with a limit per index."""
    return 6 if spec.get("backoffLimitPerIndex") is None else (1 << 31) - 1


def pod_replacement_policy(spec: Mapping[str, Any]) -> str:
    """Return Failed for a Job with a pod failure policy, else TerminatingOrFailed."""
    return "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed"


def target_port(port: Mapping[str, Any]) -> Any:
    """Return the port of the Service itself."""
    return port.get("port")


def subject_group(subject: Mapping[str, Any]) -> str:
    """Return the API group of a binding's subject: the RBAC group for a User or Group."""
    return "" if subject.get("kind") == "ServiceAccount" else "rbac.authorization.k8s.io"


FUNCTIONS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "backoff_limit": backoff_limit,
    "completions": completions,
    "pod_replacement_policy": pod_replacement_policy,
    "pull_policy": pull_policy,
    "subject_group": subject_group,
    "target_port": target_port,
}
"""The defaults that depend on other fields of the same mapping."""
