"""Service accounts and their permissions in the Kubernetes API."""

from collections.abc import Iterator, Sequence
from typing import Any

from mlgen.jobfile.model import TrainingJob
from mlgen.objects.skeleton import filled


def policy_rule(
    group: str, resources: Sequence[str], verbs: Sequence[str], names: Sequence[str] = ()
) -> dict[str, Any]:
    """Return one rule of a Role; without names, it applies to every object of the resources."""
    resource_names = {"resourceNames": list(names)} if names else {}
    return {
        "apiGroups": [group],
        "resources": list(resources),
        **resource_names,
        "verbs": list(verbs),
    }


def access(
    job: TrainingJob, metadata: dict[str, Any], account: str, rules: Sequence[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Return a Role and the RoleBinding that grants it to a service account.

    Args:
        job: the job.
        metadata: of each object.
        account: the name of the service account. If it is the name in `metadata`, the
            ServiceAccount is returned too; else it is the user's and exists already.
        rules: of the Role.
    """
    if account == metadata["name"]:
        yield filled("serviceaccount", metadata=metadata)
    yield filled("role", metadata=metadata, rules=list(rules))
    yield filled(
        "rolebinding",
        metadata=metadata,
        role=metadata["name"],
        service_account=account,
        namespace=job.namespace,
    )
