"""The API server's own validation: an object → the rules that it breaks.

The schema (mlgen/kubernetes/schema.py) checks the structure of an object; these rules check its
values. Each module names its source in the code of Kubernetes. Rules for single values are checked
for every object; references between objects have checks of their own (mlgen/checks/references.py).
https://kubernetes.io/docs/reference/kubernetes-api/
"""

from collections.abc import Callable, Iterator, Mapping

from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.validation._read import mapping
from mlgen.kubernetes.validation.claims import persistent_volume_claim
from mlgen.kubernetes.validation.config_maps import config_map
from mlgen.kubernetes.validation.jobs import job
from mlgen.kubernetes.validation.metadata import metadata
from mlgen.kubernetes.validation.rights import role, role_binding
from mlgen.kubernetes.validation.services import service
from mlgen.kubernetes.validation.workloads import deployment, stateful_set
from mlgen.kubernetes.versions import KubeVersion
from mlgen.kubernetes.violation import Violation

Rule = Callable[[Object, KubeVersion], Iterator[Violation]]

KINDS: Mapping[str, Rule] = {
    "ConfigMap": config_map,
    "Deployment": deployment,
    "Job": job,
    "PersistentVolumeClaim": persistent_volume_claim,
    "Role": role,
    "RoleBinding": role_binding,
    "Service": service,
    "StatefulSet": stateful_set,
}
"""The kinds with rules of their own. An object of another kind has metadata only."""


def violations(item: Object, version: KubeVersion) -> Iterator[Violation]:
    """Return the rules that an object breaks, except for the syntax and length of its name.

    Args:
        item: the object. A value of the wrong type counts as omitted.
        version: of the cluster.
    """
    yield from metadata(("metadata",), mapping(item, "metadata"))
    rule = KINDS.get(str(item.get("kind")))
    if rule:
        yield from rule(item, version)
