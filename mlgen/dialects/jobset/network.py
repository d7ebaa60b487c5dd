"""The addresses of pods: `<JobSet>-<replicated Job>-<Job index>-<pod index>.<JobSet>`.

Source: kubernetes-sigs/jobset, pkg/controllers/jobset_controller.go.
"""

import json

from mlgen.dialects._builder import Builder
from mlgen.dialects.jobset.replicated_jobs import ReplicatedJob


def check_network(builder: Builder) -> None:
    """Report a subdomain other than the JobSet's name, and names that resolve only when ready."""
    network = builder.spec.get("network")
    subdomain, not_ready = network.get("subdomain"), network.get("publishNotReadyAddresses")
    if subdomain and subdomain.value != builder.name:
        message = f"here the subdomain of the pods is {builder.name}, not {subdomain.value}"
        hint = f"replace .{subdomain.value} with .{builder.name} in addresses"
        builder.differs(subdomain, message, hint)
    if not_ready.value is False:
        message = "here the names of pods resolve before the pods are ready"
        builder.differs(not_ready, message, "retry connections until they are accepted")


def check_v1alpha1_addresses(builder: Builder, replicated_jobs: list[ReplicatedJob]) -> None:
    """Report addresses in v1alpha1's own form, with a subdomain for each replicated Job."""
    texts = [json.dumps(replicated.pod_template.value) for replicated in replicated_jobs]
    for subdomain in [f"{builder.name}-{replicated.name}" for replicated in replicated_jobs]:
        for replicated, text in zip(replicated_jobs, texts, strict=True):
            if f".{subdomain}" in text:
                message = f"here the subdomain of the pods is {builder.name}, not {subdomain}"
                hint = f"replace .{subdomain} with .{builder.name} in addresses"
                builder.differs(replicated.pod_template, message, hint)
