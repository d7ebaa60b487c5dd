"""Policies and annotations that apply to a KubeDL job as a whole.

Source: kubedl-io/kubedl at b93a2b4, pkg/job_controller/api/v1 and pkg/job_controller.
"""

from collections.abc import Mapping

from mlgen.dialects._builder import Builder
from mlgen.dialects._kubeflow_common import Rules, bound_crashes, policy_field, run_policy
from mlgen.dialects._source_value import SourceValue
from mlgen.dialects.kubedl.annotations import (
    NETWORK_MODE,
    annotation,
    on_host_network,
    remove_annotation,
)
from mlgen.dialects.kubedl.code_sync import write_code_sync


def write_policies(
    builder: Builder, replica_types: Mapping[str, SourceValue], rules: Rules, clean: str = ""
) -> None:
    """Write the policies, the network and the code of the whole job.

    Args:
        builder: has all roles.
        replica_types: by role.
        rules: of the kind.
        clean: KubeDL's default of `cleanPodPolicy` for the kind, if it is not None.
    """
    restarts = {role.get("restartPolicy", "Never") for role in builder.roles.values()}
    run_policy(builder, replica_types, "", clean, endless=restarts != {"Never"})
    bound_crashes(builder, rules)
    _report_controllers(builder)
    if on_host_network(builder):
        builder.put(("spec", "network", "host"), annotation(builder, NETWORK_MODE), value=True)
        remove_annotation(builder, NETWORK_MODE)
    write_code_sync(builder)
    builder.share_templates()


def _report_controllers(builder: Builder) -> None:
    """Report policies that KubeDL's other controllers would apply."""
    cron = policy_field(builder.spec, "cronPolicy")
    if cron:
        message = "KubeDL starts the job again by this schedule; mlgen does not"
        hint = "let a CronJob or an Argo CronWorkflow apply the manifests"
        builder.differs(cron, message, hint)
    priority = policy_field(builder.spec, "schedulingPolicy").get("priority")
    if priority:
        message = "KubeDL's queue starts jobs of high priority first; here there is no queue"
        builder.differs(priority, message, "write priorityClassName in the templates")
