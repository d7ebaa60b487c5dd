"""The annotation `kubedl.io/tensorboard-config` of a TFJob: a TensorBoard server for the job.

Source: kubedl-io/kubedl at b93a2b4, pkg/tensorboard.
"""

from shlex import quote
from typing import Any

from mlgen.dialects._builder import Builder
from mlgen.dialects._source_value import SourceValue
from mlgen.dialects.kubedl.annotations import read_json

TENSORBOARD = "kubedl.io/tensorboard-config"

EXAMPLE = '{"logDir": "/logs"}'

FIELDS = {
    "logDir": str,
    "ttlSecondsAfterJobFinished": int,
    "updateTimestamp": str,
    "image": str,
    "ingressSpec": dict,
}

LEADERS = ("chief", "master", "worker")
"""The roles whose volumes TensorBoard reads; the first that the job has."""

SHAREABLE = ("pvc", "nfs", "hostPath")
"""Volumes that pods can share."""


def write_tensorboard(builder: Builder) -> None:
    """Write `spec.tensorboard`, with the leader's volume on which the logs are."""
    config = read_json(builder, TENSORBOARD, FIELDS, EXAMPLE)
    if not config:
        return
    log_dir = config.get("logDir")
    if not log_dir.value:
        builder.refuse(config, 'field "logDir" is missing', f"for example {EXAMPLE}")
        return
    leader = next((role for role in LEADERS if role in builder.roles), None)
    if leader is None:
        return
    if "://" not in log_dir.value and not _share_volume(builder, leader, log_dir):
        message = f"{log_dir.value} is not on a volume that TensorBoard can share"
        hint = f"mount a claim or NFS there, only in the training container of the {leader}"
        builder.differs(log_dir, f"{message}; TensorBoard is not rendered", hint)
        return
    image = config.get("image").value or builder.roles[leader]["image"]
    builder.put(("spec", "tensorboard", "logDir"), log_dir)
    builder.put(("spec", "tensorboard", "image"), config.get("image"), image)
    _report_differences(builder, config)


def _report_differences(builder: Builder, config: SourceValue) -> None:
    """Report the parts of the configuration that are not rendered."""
    name = f"{builder.name}-tensorboard"
    seconds, ingress = config.get("ttlSecondsAfterJobFinished"), config.get("ingressSpec")
    if seconds:
        message = f"KubeDL deletes TensorBoard {seconds.value} s after training; here it remains"
        hint = f"to delete it, run kubectl delete deployment,service {quote(name)}"
        builder.differs(seconds, message, hint)
    if ingress:
        message = "no Ingress is rendered for TensorBoard"
        builder.differs(ingress, message, f"create one for the Service {name}, port 6006")


def _share_volume(builder: Builder, leader: str, log_dir: SourceValue) -> bool:
    """Move the leader's volume on which the logs are to the volumes of all roles.

    TensorBoard has the volumes of all roles. Return False if there is no such volume.
    """
    mounted = {
        name: volume
        for name, volume in builder.roles[leader].get("volumes", {}).items()
        if set(SHAREABLE) & set(volume)
        and f"{log_dir.value}/".startswith(f"{volume['mountPath'].rstrip('/')}/")
    }
    if not mounted:
        return False
    name = max(mounted, key=lambda name: len(mounted[name]["mountPath"]))
    volume = mounted[name]
    without = [role for role in builder.roles if name not in builder.roles[role].get("volumes", {})]
    if without:
        message = f"TensorBoard has the volumes of all roles, so {name} is also mounted in"
        builder.differs(log_dir, f"{message} {', '.join(without)}")
    path = builder.origins["spec", "roles", leader, "volumes", name]
    builder.put(("spec", "volumes", name), SourceValue(volume, path))
    for role in builder.roles.values():
        _remove_volume(role, name, volume)
    return True


def _remove_volume(role: dict[str, Any], name: str, volume: dict[str, Any]) -> None:
    """Remove a volume from a role unless the role has another one of this name."""
    if role.get("volumes", {}).get(name) == volume:
        del role["volumes"][name]
        if not role["volumes"]:
            del role["volumes"]
