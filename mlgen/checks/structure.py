"""Objects of a job → what the API server rejects in them because of their structure.

Only `mlgen verify` needs this: pod templates of a job file are checked before they are merged, each
value at its own place, and everything else in an object is mlgen's.
"""

from collections.abc import Iterable, Iterator

from mlgen.checks.pods import Finding, role_path, title
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.schema import has_kind, violations
from mlgen.kubernetes.versions import KubeVersion
from mlgen.problems import Problem, dotted


def findings(objects: Iterable[Object], kube_version: KubeVersion) -> Iterator[Finding]:
    """Return every violation of the API's schema, in the objects of which it has the kinds."""
    for item in (item for item in objects if has_kind(item["kind"])):
        for violation in violations(item["kind"], item, kube_version):
            message = f"{title(item)}: {dotted(violation.path)}: {violation.message}"
            problem = Problem(role_path(item), message, violation.code, violation.hint)
            yield Finding(item, violation.path, problem)
