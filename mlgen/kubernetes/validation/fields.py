"""Rules for references to fields of the pod: `fieldRef`.

Source: Kubernetes 1.34.4, pkg/apis/core/validation/validation.go (validateObjectFieldSelector) and
pkg/apis/core/pods/helpers.go (ConvertDownwardAPIFieldLabel).
"""

import re
from collections.abc import Iterator, Sequence

from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.validation._read import text
from mlgen.kubernetes.validation.syntax import missing, one_of, qualified
from mlgen.kubernetes.violation import Violation
from mlgen.problems import ValuePath

_SUBSCRIPT = r"(?s:(.+?)\['(.*)'\])\Z"


def field_reference(
    at: ValuePath, reference: Object, allowed: Sequence[str]
) -> Iterator[Violation]:
    """Return the violations of a `fieldRef`.

    Args:
        at: its path.
        reference: the mapping.
        allowed: the fields that can be referred to, besides single labels and annotations.
    """
    path = text(reference, "fieldPath")
    yield from one_of((*at, "apiVersion"), reference.get("apiVersion"), ("v1",))
    if not path:
        yield missing(at, "fieldPath")
        return
    place = (*at, "fieldPath")
    subscript = re.match(_SUBSCRIPT, path)
    if subscript and subscript[1] in ("metadata.labels", "metadata.annotations"):
        key = subscript[2] if subscript[1] == "metadata.labels" else subscript[2].lower()
        yield from qualified(place, key, "label key")
    elif path != "spec.host" or "spec.nodeName" not in allowed:
        yield from one_of(place, path, allowed)
