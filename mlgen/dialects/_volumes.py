"""Volumes of a pod in the short forms of the job file."""

from collections.abc import Mapping
from typing import Any

VOLUME_SHORT = {
    "persistentVolumeClaim": ("claimName", "pvc"),
    "configMap": ("name", "configMap"),
    "secret": ("secretName", "secret"),
    "hostPath": ("path", "hostPath"),
}
"""By the field of a volume: what alone may stand in it, and the short form of that."""


def short_volume(volume: Mapping[str, Any]) -> dict[str, Any]:
    """Return a volume as a role has it, but for its mount; {} where it has no short form."""
    sources = [name for name in volume if name != "name"]
    if len(sources) != 1:
        return {}
    (name,) = sources
    if not isinstance(volume[name], dict):
        return {}
    if name in VOLUME_SHORT and set(volume[name]) == {VOLUME_SHORT[name][0]}:
        inner, short = VOLUME_SHORT[name]
        return {short: volume[name][inner]}
    whole = {"nfs": {"server", "path"}, "emptyDir": {"medium", "sizeLimit"}}
    if (
        name in whole
        and set(volume[name]) <= whole[name]
        and volume[name].get("medium") in (None, "Memory")
    ):
        return {name: volume[name]}
    return {}
