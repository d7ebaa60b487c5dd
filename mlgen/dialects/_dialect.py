"""The type of a dialect."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mlgen.dialects._builder import Builder


@dataclass(frozen=True)
class Kind:
    """One kind of custom resource in one version.

    Attributes:
        spec: the JSON Schema of its `spec`.
        convert: writes the TrainingJob with a `Builder`, whose resource conforms to the schema.
    """

    spec: Mapping[str, Any]
    convert: Callable[[Builder], None]


@dataclass(frozen=True)
class Dialect:
    """The custom resources of one operator.

    Attributes:
        kinds: by apiVersion and kind.
        groups: the API groups that only this operator uses; an unknown kind in them is an error.
    """

    kinds: Mapping[tuple[str, str], Kind]
    groups: tuple[str, ...] = ()
