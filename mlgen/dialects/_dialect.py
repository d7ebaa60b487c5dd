"""What a module of this package offers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mlgen.dialects._builder import Builder


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of custom resource in one version.

    Attributes:
        spec: the JSON Schema of its `spec`.
        convert: writes the TrainingJob; called with a resource that holds against the schema.
    """

    spec: Mapping[str, Any]
    convert: Callable[[Builder], None]


@dataclass(frozen=True, slots=True)
class Dialect:
    """The custom resources of one operator.

    Attributes:
        kinds: by apiVersion and kind.
        groups: the API groups that belong to the operator alone, so that an unknown kind in one of
            them is an error.
    """

    kinds: Mapping[tuple[str, str], Kind]
    groups: tuple[str, ...] = field(default=())
