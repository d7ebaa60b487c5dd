"""JobSet: sets of Jobs that are one workload, jobset.x-k8s.io/v1alpha2 and v1alpha1.

Each Job of a set becomes a role of the framework `generic`, so its pods have the same host names
as in JobSet. Sources, in kubernetes-sigs/jobset: api/jobset/v1alpha2 and v1alpha1 for fields,
pkg/webhooks for defaults and rejections, pkg/controllers for behavior.
"""

from mlgen.dialects._builder import Builder
from mlgen.dialects._dialect import Dialect, Kind
from mlgen.dialects.jobset.network import check_network, check_v1alpha1_addresses
from mlgen.dialects.jobset.pod_labels import drop_placement_annotations
from mlgen.dialects.jobset.policies import write_policies
from mlgen.dialects.jobset.replicated_jobs import (
    ReplicatedJob,
    are_too_many,
    read_replicated_jobs,
)
from mlgen.dialects.jobset.restarts import read_restarts, write_restarts
from mlgen.dialects.jobset.roles import write_roles
from mlgen.dialects.jobset.schema import V1ALPHA1, V1ALPHA2
from mlgen.dialects.jobset.startup import write_startup_order
from mlgen.dialects.jobset.success import write_success_policy
from mlgen.dialects.jobset.volume_claims import write_claims
from mlgen.problems import Collector

GROUP = "jobset.x-k8s.io"


def _convert_v1alpha2(builder: Builder) -> None:
    """Write the TrainingJob of a JobSet."""
    replicated_jobs = read_replicated_jobs(builder)
    _convert(builder, replicated_jobs)


def _convert_v1alpha1(builder: Builder) -> None:
    """Write the TrainingJob of a JobSet whose pods may use v1alpha1's form of addresses."""
    replicated_jobs = read_replicated_jobs(builder)
    _convert(builder, replicated_jobs)
    check_v1alpha1_addresses(builder, replicated_jobs)


def _convert(builder: Builder, replicated_jobs: list[ReplicatedJob]) -> None:
    """Write the parts of a TrainingJob that are the same in both versions."""
    if are_too_many(builder, replicated_jobs):
        return
    kind = builder.resource.get("kind")
    builder.put(("spec", "framework"), kind, "generic")
    builder.put(("spec", "options", "addresses"), kind, value=False)
    restarts = read_restarts(builder, replicated_jobs)
    for replicated in replicated_jobs:
        write_roles(builder, replicated_jobs, replicated, restarts)
    write_startup_order(builder, replicated_jobs)
    write_success_policy(builder, replicated_jobs)
    write_restarts(builder, replicated_jobs, restarts)
    write_policies(builder, replicated_jobs)
    write_claims(builder, replicated_jobs)
    drop_placement_annotations(builder, replicated_jobs)
    check_network(builder)
    builder.share_templates()
    # The roles of a replicated Job have one pod template, whose problems each role has reported.
    builder.collector = Collector(dict.fromkeys(builder.collector.problems))


DIALECT = Dialect(
    groups=(GROUP,),
    kinds={
        (f"{GROUP}/v1alpha2", "JobSet"): Kind(V1ALPHA2, _convert_v1alpha2),
        (f"{GROUP}/v1alpha1", "JobSet"): Kind(V1ALPHA1, _convert_v1alpha1),
    },
)
