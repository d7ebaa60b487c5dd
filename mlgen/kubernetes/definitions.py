"""The objects of Kubernetes' API in each version: their fields, types and required fields.

`schemas/kubernetes/api.json` contains the pod template and the kinds that mlgen renders, as a
mapping of definitions (`PodSpec`), each with:

- `fields`: the type of each field. `[T]` is a list, `{T}` a mapping with any keys, and a
  capitalized name is another definition. Scalars are `string`, `boolean`, `int32`, `int64`,
  `quantity`, `int-or-string`, `time` and `bytes`. `any` is a value of any type.
- `required`: the fields without which the API server rejects an object.
- `since`, `until`: the first and the last version with a field, unless all supported ones have it.

`.ci/kubernetes-schemas` writes that file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from mlgen.kubernetes.versions import DEFAULT, KubeVersion, parse
from mlgen.resources import table


@dataclass(frozen=True)
class Definition:
    """An object in one version.

    Attributes:
        fields: the type of each field.
        required: the fields without which the API server rejects the object.
        later: fields of later versions, with the first version that has them.
        earlier: fields of earlier versions, with the last version that has them.
    """

    fields: Mapping[str, str]
    required: tuple[str, ...]
    later: Mapping[str, KubeVersion]
    earlier: Mapping[str, KubeVersion]


def names() -> list[str]:
    """Return the names of all definitions, sorted."""
    return list(table("kubernetes/api"))


@cache
def definition(name: str, version: KubeVersion | None = DEFAULT) -> Definition:
    """Return a definition in a version, or for None, with the fields of all versions.

    Raises:
        KeyError: there is no definition with this name.
    """
    data = table("kubernetes/api")[name]
    since = {field: parse(text) for field, text in data.get("since", {}).items()}
    until = {field: parse(text) for field, text in data.get("until", {}).items()}
    later = {field: first for field, first in since.items() if version and version < first}
    earlier = {field: last for field, last in until.items() if version and version > last}
    fields = {k: v for k, v in data["fields"].items() if k not in later and k not in earlier}
    return Definition(fields, tuple(data.get("required", ())), later, earlier)


def is_definition(kind: str) -> bool:
    """Return whether a type is the name of a definition."""
    return kind[0].isupper()


def element(kind: str) -> str:
    """Return the element type of a list or mapping, or the type itself: [[T]] → T."""
    return kind.strip("[]{}")
