"""The API server's own validation: an object → the rules that it breaks.

The schema (mlgen/kubernetes/schema.py) checks the structure of an object; these rules check its
values. They are rows of a table (`table.py`), and code for what no row can express. References
between objects have checks of their own (mlgen/checks/references.py).
https://kubernetes.io/docs/reference/kubernetes-api/
"""

from collections.abc import Iterator

from mlgen.kubernetes.definitions import names
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.validation import pods, resources, table, workloads
from mlgen.kubernetes.validation.rows import Spot, Table, mapping
from mlgen.kubernetes.versions import KubeVersion
from mlgen.problems import Problem

UNCHECKED = frozenset(
    [
        "JobSpec.scheduling",
        "ObjectMeta.managedFields",
        "ObjectMeta.ownerReferences",
        "PodSpec.ephemeralContainers",
        "PodSpec.evictionResponders",
        "PodSpec.schedulingGroup",
        "PodSpec.workloadRef",
        "VolumeProjection.podCertificate",
    ]
)
"""Fields within which no value is checked: the API server may drop them, or sets them."""

RULES = Table(
    (*table.ROWS, *pods.ROWS, *resources.ROWS, *workloads.ROWS), UNCHECKED, pods.is_skipped
)


def broken_rules(item: Object, version: KubeVersion) -> Iterator[Problem]:
    """Return the rules that an object breaks, except for the syntax and length of its name.

    Args:
        item: the object. A value of the wrong type counts as omitted.
        version: of the cluster.
    """
    kind = str(item.get("kind"))
    yield from workloads.metadata(("metadata",), mapping(item, "metadata"))
    spot = Spot((), item, kind, version)
    if kind in names():
        yield from RULES.broken_by(spot)
    else:
        yield from RULES.broken_by(
            Spot(("metadata",), mapping(item, "metadata"), "ObjectMeta", version, spot)
        )
