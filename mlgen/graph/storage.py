"""The storage and settings that the pods of a job use: claims, Secrets, ConfigMaps, NFS."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mlgen.kubernetes.objects import Object
from mlgen.show.groups import Group

MANY = 4
"""If there are more of one kind, they are one box."""

PATHS = 2
"""The number of mount paths that a box names."""


@dataclass(frozen=True)
class Store:
    """A claim, Secret, ConfigMap or NFS folder.

    Attributes:
        kind: `claim`, `Secret`, `ConfigMap` or `NFS`.
        name: of the object; of several together, how many there are.
        users: the positions of the groups that use it.
        paths: where their training containers mount it.
    """

    kind: str
    name: str
    users: tuple[int, ...]
    paths: tuple[str, ...]


def stores(rows: Sequence[Group]) -> list[Store]:
    """Return what the pods of roles use, without the files of mlgen itself."""
    users: dict[tuple[str, str], dict[int, None]] = {}
    paths: dict[tuple[str, str], dict[str, None]] = {}
    for number, group in enumerate(rows):
        for kind, name, path in _used(group):
            users.setdefault((kind, name), {})[number] = None
            if path:
                paths.setdefault((kind, name), {})[path] = None
    found = [
        Store(kind, name, tuple(users[kind, name]), _some(list(paths.get((kind, name), ()))))
        for kind, name in users
    ]
    return list(_folded(found))


def _some(paths: list[str]) -> tuple[str, ...]:
    more = [f"and {len(paths) - PATHS} more"] if len(paths) > PATHS else []
    return (*paths[:PATHS], *more)


def _folded(found: Sequence[Store]) -> Iterator[Store]:
    """Yield the stores; many of one kind are one."""
    for kind in dict.fromkeys(store.kind for store in found):
        alike = [store for store in found if store.kind == kind]
        if len(alike) <= MANY:
            yield from alike
            continue
        users = tuple(dict.fromkeys(user for store in alike for user in store.users))
        yield Store(kind, f"{len(alike)} {kind}s", tuple(sorted(users)), ())


def _used(group: Group) -> Iterator[tuple[str, str, str]]:
    """Yield the kind, name and mount path of what a pod uses; "" for variables."""
    mounts = {mount["name"]: mount["mountPath"] for mount in group.main.get("volumeMounts") or ()}
    for volume in group.pod.get("volumes") or ():
        path = mounts.get(volume["name"])
        kind, name = _source(volume)
        if name and path and not _is_of_mlgen(group, kind, name):
            yield kind, name, path
    for item in group.main.get("env") or ():
        for kind, name in _referred(item.get("valueFrom") or {}, "KeyRef"):
            yield kind, name, ""
    for item in group.main.get("envFrom") or ():
        for kind, name in _referred(item, "Ref"):
            yield kind, name, ""


def _is_of_mlgen(group: Group, kind: str, name: str) -> bool:
    """Return whether a volume is the job's own ConfigMap."""
    return kind == "ConfigMap" and name == f"{group.pod.get('subdomain')}-config"


def _source(volume: Object) -> tuple[str, str]:
    if "persistentVolumeClaim" in volume:
        return "claim", str(volume["persistentVolumeClaim"]["claimName"])
    if "secret" in volume:
        return "Secret", str(volume["secret"].get("secretName", ""))
    if "configMap" in volume:
        return "ConfigMap", str(volume["configMap"].get("name", ""))
    if "nfs" in volume:
        return "NFS", f"{volume['nfs']['server']}:{volume['nfs']['path']}"
    return "", ""


def _referred(source: Object, suffix: str) -> Iterator[tuple[str, str]]:
    for kind in ("Secret", "ConfigMap"):
        field = f"{kind[0].lower()}{kind[1:]}{suffix}"
        if field in source:
            yield kind, str(source[field].get("name", ""))
