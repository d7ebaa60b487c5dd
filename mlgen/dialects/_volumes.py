"""Volumes of a pod in the short forms of a job file."""

from collections.abc import Mapping
from typing import Any

RENAMED = {
    "persistentVolumeClaim": ("claimName", "pvc"),
    "configMap": ("name", "configMap"),
    "secret": ("secretName", "secret"),
    "hostPath": ("path", "hostPath"),
}
"""By type of volume: the only field that its short form can hold, and the name of that form."""

UNCHANGED = {"nfs": {"server", "path"}, "emptyDir": {"medium", "sizeLimit"}}
"""By type of volume: the fields that its short form can hold, with the same names."""


def short_volume(volume: Mapping[str, Any]) -> dict[str, Any]:
    """Return the short form of a volume, without its mount; {} if it has none.

    A volume of one type has a short form if the form holds all of its fields.
    """
    types = [name for name in volume if name != "name"]
    if len(types) != 1 or not isinstance(volume[types[0]], dict):
        return {}
    (name,) = types
    fields = volume[name]
    if name in RENAMED and set(fields) == {RENAMED[name][0]}:
        inner, short = RENAMED[name]
        return {short: fields[inner]}
    if (
        name in UNCHANGED
        and set(fields) <= UNCHANGED[name]
        and fields.get("medium") in (None, "Memory")
    ):
        return {name: fields}
    return {}
