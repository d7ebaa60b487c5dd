"""Pods → problems with their volumes, where they are mounted, and who can use them.

The API server accepts these values, but a volume cannot be mounted, or hides what pods need.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from mlgen.checks.amounts import NODES, few_bytes
from mlgen.checks.job_file import holders
from mlgen.checks.placement import node_count, own_terms
from mlgen.checks.pods import (
    Container,
    Located,
    Mount,
    Objects,
    Pods,
    of_containers,
    of_objects,
    of_pods,
    role_path,
)
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.values import value_at
from mlgen.objects.labels import SUPERVISOR, WAITS
from mlgen.problems import Problem, ValuePath, choice, error, warning
from mlgen.shell import is_shell

FILES_ONLY = ("configMap", "secret", "projected", "downwardAPI")
"""Volumes that contain only files of objects and of the pod."""

READ_ONLY = (*FILES_ONLY, "image")
"""Volumes that are always mounted read-only."""

DEEPEST = 50
"""The number of folders in a path that are looked up."""

FILE = r".+\.(ya?ml|json|py|sh|toml|ini|cfg|conf|txt|env|properties|xml|pem|crt)"
"""A name that is a file."""

SYSTEM = r"(/(bin|sbin|lib|lib32|lib64|usr|usr/(bin|sbin|lib|lib64)|etc|proc|sys|dev))?/*"
PROGRAMS = (
    r"/(opt/(ana|mini)?conda3?|opt/(venv|nvidia|ml|mpi|hpcx)|venv|usr/local(/(bin|lib|cuda[^/]*))?"
    r"|root/\.local)/*"
)
"""Directories of images that programs need, and may need."""

WRITABLE = "remove readOnly, or mount another volume there"

CREATES = r"\b(if|test|cp|mv|git|curl|wget|tar|unzip|rsync|aws|gsutil|mkdir|pip|tee)\b|\[|>"
"""Parts of a shell script that test for a file, or may create it."""


def mount_at(folders: Mapping[str, Mount], path: str) -> Mount | None:
    """Return the mount that contains a path, if any."""
    for _ in range(min(path.count("/"), DEEPEST) + 1):
        if path in folders:
            return folders[path]
        path = path.rpartition("/")[0]
    return None


def source_of(volume: Object) -> str:
    """Return the source of a volume: `configMap`. The default is emptyDir."""
    for kind, value in volume.items():
        if kind != "name" and value is not None:
            return kind
    return "emptyDir"


def is_read_only(mount: Object, volume: Object) -> bool:
    """Return whether a mounted volume cannot be written to."""
    kind = source_of(volume)
    flags = (mount.get("readOnly"), (volume.get(kind) or {}).get("readOnly"))
    return kind in READ_ONLY or any(flags)


def on_disk(volume: Object) -> bool:
    """Return whether a volume is an emptyDir on the node's disk."""
    return source_of(volume) == "emptyDir" and not (volume.get("emptyDir") or {}).get("medium")


def is_filled(container: Container, volume: Object) -> bool:
    """Return whether another container of the pod mounts a volume, and may fill it."""
    return any(
        mount["name"] == volume["name"]
        for each in container.pods.containers
        if each.path != container.path
        for mount in each.data.get("volumeMounts") or ()
    )


def creates_files(container: Container) -> bool:
    """Return whether a container runs a shell script that may create or test for files."""
    lines = container.lines
    return any(map(is_shell, lines.words)) and bool(re.search(CREATES, lines.text))


def files_in(job: Objects, volume: Object) -> dict[str, None] | None:
    """Return the files of a ConfigMap volume; None if the job does not contain the ConfigMap."""
    source = volume.get("configMap") or {}
    item = job.of_kind("ConfigMap").get(source.get("name", ""))
    if item is None:
        return None
    keys = [*(item.get("data") or ()), *(item.get("binaryData") or ())]
    return dict.fromkeys([each["path"] for each in source.get("items") or ()] or keys)


@of_containers
def hidden_image(container: Container) -> Iterator[Located]:
    """Report a volume that replaces a directory of the image with what programs need.

    The volume may contain the files of the image. runc rejects mounts at / and /proc.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        volumes: {data: {mountPath: /, pvc: data}}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        volumes: {data: {mountPath: /usr/, emptyDir: {}}}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        volumes: {env: {mountPath: /opt/conda, emptyDir: {}}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        volumes:
          env: {mountPath: /opt/conda, pvc: env}
          ca: {mountPath: /etc/ssl/certs, configMap: ca}
          nccl: {mountPath: /etc/nccl.conf, configMap: nccl, subPath: nccl.conf}
          devices: {mountPath: /dev, hostPath: /dev}
        roles: {worker: {replicas: 2}}
    """
    for at, mount, volume in container.mounts:
        folder, name = mount["mountPath"], volume["name"]
        if not _is_whole(mount, volume):
            continue
        is_empty = source_of(volume) == "emptyDir" and not is_filled(container, volume)
        hides = is_empty and not creates_files(container) and re.fullmatch(PROGRAMS, folder)
        if hides or re.fullmatch(SYSTEM, folder):
            message = (
                f"the volume {name} replaces {folder} of the image, which the container needs"
                " to start"
            )
            hint = "mount it at a directory below, or add subPath to mount one file"
            found = container.error((*at, "mountPath"), message, hint, "volume")
            # The container runtime mounts files into /etc, for which it needs to create them.
            fails = ("", "/proc", "/etc") if source_of(volume) in FILES_ONLY else ("", "/proc")
            yield found.as_warning(unless=folder.rstrip("/") in fails)


def _is_whole(mount: Object, volume: Object) -> bool:
    """Return whether a mount is a whole volume. A path of the node may be a file."""
    is_part = mount.get("subPath") or mount.get("subPathExpr")
    return not is_part and source_of(volume) != "hostPath"


@of_containers
def file_as_directory(container: Container) -> Iterator[Located]:
    """Report a volume at the path of a file, where it becomes a directory.

    https://kubernetes.io/docs/concepts/storage/volumes/#using-subpath

    wrong:
        framework: pytorch
        command: [torchrun, /app/run.py]
        volumes: {code: {mountPath: /app/run.py, files: {run.py: ""}}}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        volumes: {conf: {mountPath: /app/a.json, secret: conf}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [bash, /app/run.sh]
        volumes: {code: {mountPath: /app/run.sh, configMap: code, subPath: run.sh}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        volumes:
          jobs: {mountPath: /etc/job.d, configMap: jobs}
          tools: {mountPath: /opt/app-1.2, pvc: tools}
          conf: {mountPath: /etc/a.conf, hostPath: /etc/a.conf}
        roles: {worker: {replicas: 2}}
    """
    for at, mount, volume in container.mounts:
        file = mount["mountPath"].rstrip("/").rpartition("/")[2]
        if _is_whole(mount, volume) and re.fullmatch(FILE, file):
            message = f"the volume is mounted as a directory named {file}"
            hint = f"add subPath: {file}, if that is the name of the file in the volume"
            yield container.warning((*at, "mountPath"), message, hint, "volume")


@of_containers
def shared_memory_on_disk(container: Container) -> Iterator[Located]:
    """Report a directory on disk at /dev/shm, with which shared memory is slow.

    https://kubernetes.io/docs/concepts/storage/volumes/#emptydir

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        volumes: {shm: {mountPath: /dev/shm, emptyDir: {}}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        volumes: {shm: {mountPath: /dev/shm, emptyDir: {medium: Memory}}}
        roles: {worker: {replicas: 2}}
    """
    for at, mount, volume in container.mounts:
        is_there = re.fullmatch("/dev/(shm)/*", mount["mountPath"])
        if is_there and on_disk(volume) and _is_whole(mount, volume):
            message = (
                f"the volume {volume['name']} replaces the shared memory at /dev/shm by a disk"
            )
            hint = "add medium: Memory to emptyDir, or write shmSize"
            yield container.warning((*at, "mountPath"), message, hint, "volume")


@of_containers
def mount_in_read_only(container: Container) -> Iterator[Located]:
    """Report a file that is mounted in a read-only volume, which lacks its mount point.

    The kubelet creates directories there before it writes the volume, but no files:
    MakeNestedMountpoints in pkg/volume/util/nested_volumes.go.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        volumes:
          conf: {mountPath: /app, configMap: conf}
          data: {mountPath: /app/data.json, pvc: data, subPath: data.json}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        volumes:
          conf: {mountPath: /app, configMap: conf}
          data: {mountPath: /app/data, pvc: data}
        roles: {worker: {replicas: 2}}
    """
    folders = container.folders
    for at, mount, _ in container.mounts:
        folder = mount["mountPath"]
        parent, slash, file = folder.rstrip("/").rpartition("/")
        outer = mount_at(folders, parent) if slash else None
        if outer is None or file in (files_in(container.job, outer[2]) or ()):
            continue
        kind, part = source_of(outer[2]), str(mount.get("subPath") or "").rpartition("/")[2]
        if kind == "image" or (kind in READ_ONLY and re.fullmatch(FILE, part)):
            message = (
                f"the container runtime cannot create {folder}, because the volume"
                f" {outer[2]['name']} around it is read-only"
            )
            hint = "mount it outside of the other volume"
            yield container.warning((*at, "mountPath"), message, hint, "volume")


@of_pods
def unmounted_volume(pods: Pods) -> Iterator[Located]:
    """Report a volume that no container mounts.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        template: {spec: {volumes: [{name: data, emptyDir: {}}]}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        template:
          spec:
            volumes: [{name: data, emptyDir: {}}]
            containers: [{name: main, volumeMounts: [{name: data, mountPath: /data}]}]
        roles: {worker: {replicas: 2}}
    """
    used = {
        mount["name"]
        for container in pods.containers
        for field in ("volumeMounts", "volumeDevices")
        for mount in container.data.get(field) or ()
    }
    for path, volume in pods.volumes():
        if volume["name"] not in used:
            message = f"no container mounts the volume {volume['name']}"
            hint = "add it to the volumeMounts of a container, or remove it"
            yield pods.warning(path, message, hint, "no-effect")


@of_pods
def unknown_medium(pods: Pods) -> Iterator[Located]:
    """Report a medium of an emptyDir with which the kubelet rejects the pod.

    pkg/volume/emptydir/empty_dir.go

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        template:
          spec:
            volumes: [{name: cache, emptyDir: {medium: RAM}}]
            containers: [{name: main, volumeMounts: [{name: cache, mountPath: /cache}]}]
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        volumes: {cache: {mountPath: /cache, emptyDir: {medium: Memory}}}
        roles: {worker: {replicas: 2}}
    """
    for path, volume in pods.volumes():
        medium = str(value_at(volume, ("emptyDir", "medium")) or "Memory")
        if not re.fullmatch("Memory|HugePages(-.+)?", medium):
            hint = choice(medium, ("Memory", "HugePages", "HugePages-2Mi", "HugePages-1Gi"))
            at, message = (*path, "emptyDir", "medium"), f'unknown value "{medium}"'
            yield pods.error(at, message, hint, "unknown-value")


@of_pods
def literal_path(pods: Pods) -> Iterator[Located]:
    """Report paths that only a shell or Docker would read as they are meant.

    Kubernetes uses paths as written: no shell expands `~` and `$HOME`, and a colon does not
    separate options, as in `docker run -v`. The container runtime requires absolute paths.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        volumes: {data: {mountPath: "/data:ro", pvc: data}}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        volumes: {data: {mountPath: "/srv/data:/data", pvc: data}}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        volumes: {data: {mountPath: /$HOME/data, hostPath: /~/data}}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        template: {spec: {containers: [{name: main, workingDir: app}]}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        workingDir: /app
        volumes: {data: {mountPath: /data, hostPath: /srv/data}}
        roles: {worker: {replicas: 2}}
    """
    places: list[tuple[ValuePath, Object, str]] = []
    for path, volume in pods.volumes():
        if volume.get("hostPath"):
            places.append(((*path, "hostPath"), volume["hostPath"], "path"))
    for container in pods.containers:
        places.append((container.path, container.data, "workingDir"))
        for at, mount, _ in container.mounts:
            places.append(((*container.path, *at), mount, "mountPath"))
    for path, holder, field in places:
        value, at = str(holder.get(field) or "/"), (*path, field)
        option = re.search("(:(ro|rw|[zZ])(,|$))|:/", value) if field == "mountPath" else None
        if option:
            hint = "write only the path in the container, which is the part after the colon"
            if option[1]:
                hint = (
                    "write the path without the option after the colon; for a read-only mount,"
                    " add readOnly: true"
                )
            message = f'the volume would be mounted at a directory named "{value}"'
            yield pods.warning(at, message, hint, "bad-value")
        elif re.search(r"^/?~|\$[({A-Z]", value):
            message = f'~ and variables are not expanded in "{value}"'
            found = pods.error(at, message, "write the full path, such as /data/cache", "bad-value")
            yield found.as_warning(unless=value[0] != "/" and field != "mountPath")
        elif value[0] != "/" and field == "workingDir":
            message = f'expected an absolute path, got "{value}"'
            yield pods.error(at, message, 'start it with "/"', "bad-value")


@of_pods
def nfs_url(pods: Pods) -> Iterator[Located]:
    """Report an NFS server that is not a host, so that the volume cannot be mounted.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        volumes: {data: {mountPath: /data, nfs: {server: "nfs://files", path: /data}}}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        volumes: {data: {mountPath: /data, nfs: {server: "files:/data", path: /}}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        volumes: {data: {mountPath: /data, nfs: {server: files, path: /data}}}
        roles: {worker: {replicas: 2}}
    """
    for path, volume in pods.volumes():
        server = str(value_at(volume, ("nfs", "server")) or "")
        if "/" in server:
            message = f'"{server}" is not a host name or an IP address'
            hint = "write only the host, and the exported directory in path"
            yield pods.error((*path, "nfs", "server"), message, hint, "bad-value")


@of_objects.when("claims")
def disk_for_many(job: Objects) -> Iterator[Located]:
    """Report a claim of several nodes with a storage class of disks, which only one node can use.

    The classes are found by the usual names of the clouds: see `disks` in
    `schemas/checks/nodes.json`.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        claims:
          data:
            accessModes: [ReadWriteMany]
            storageClassName: gp3
            resources: {requests: {storage: 9Gi}}
        volumes: {data: {mountPath: /data, pvc: data}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        claims:
          data:
            accessModes: [ReadWriteMany]
            storageClassName: efs-sc
            resources: {requests: {storage: 9Gi}}
        volumes: {data: {mountPath: /data, pvc: data}}
        roles: {worker: {replicas: 2}}
    """
    for name, item in job.claims.items():
        spec = item.get("spec") or {}
        class_, modes = str(spec.get("storageClassName") or ""), spec.get("accessModes") or ()
        is_disk = re.fullmatch(NODES["disks"], class_) and spec.get("volumeMode") != "Block"
        if is_disk and "ReadWriteMany" in modes:
            message = f"{class_} is usually a class of disks, which do not support ReadWriteMany"
            hint = "write a class of shared file systems"
            found = warning(("claims", name, "storageClassName"), message, hint)
            yield Located(item, (), found)


@of_objects.when("claims")
def one_node_claim(job: Objects) -> Iterator[Located]:
    """Report a claim of one node or one pod that several pods use.

    https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        claims:
          data: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 9Gi}}}
        volumes: {data: {mountPath: /data, pvc: data}}
        roles: {worker: {replicas: 4}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        claims:
          data: {accessModes: [ReadWriteOncePod], resources: {requests: {storage: 9Gi}}}
        volumes: {data: {mountPath: /data, pvc: data}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        claims:
          data: {accessModes: [ReadWriteMany], resources: {requests: {storage: 9Gi}}}
        volumes: {data: {mountPath: /data, pvc: data}}
        roles: {worker: {replicas: 4}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        claims:
          data: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 9Gi}}}
        volumes: {data: {mountPath: /data, pvc: data}}
        nodeSelector: {kubernetes.io/hostname: n1}
        roles: {worker: {replicas: 2}}
    right:
        framework: generic
        command: [python, train.py]
        claims:
          data: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 9Gi}}}
        volumes: {data: {mountPath: /data, pvc: data}}
        roles: {prepare: {}, train: {waitFor: [{role: prepare, until: Complete}]}}
        successPolicy: {role: train}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        claims:
          data:
            accessModes: [ReadWriteOnce]
            volumeName: nfs-1
            storageClassName: ""
            resources: {requests: {storage: 9Gi}}
        volumes: {data: {mountPath: /data, pvc: data}}
        roles: {worker: {replicas: 4}}
    """
    for name, item in job.claims.items():
        if found := _shared_by(job, name, item.get("spec") or {}):
            at = ("spec", "claims", name, "accessModes")
            yield Located(item, (), replace(found, path=at))


def shared_claims(job: Objects) -> Iterator[tuple[str, Located]]:
    """Yield the existing claims that several pods use, each with its name and a problem.

    They are problems if the input contains the claim, and its access mode allows only one node.
    """
    path = ("persistentVolumeClaim", "claimName")
    used: dict[str, tuple[Pods, ValuePath]] = {}
    for pods in job.distinct_pods:
        for at, volume in pods.volumes():
            used.setdefault(value_at(volume, path) or "", (pods, (*at, *path)))
    for name in used.keys() - job.claims.keys() - {""}:
        pods, at = used[name]
        if found := _shared_by(job, name, {"accessModes": ["ReadWriteOnce"]}):
            yield name, Located(pods.item, at, replace(found, path=role_path(pods.item)))


def _shared_by(job: Objects, name: str, spec: Object) -> Problem | None:
    """Return the problem of a claim that too many pods use at the same time, without its path."""
    users = [pods for pods in job.claim_users.get(name, ()) if pods.item["kind"] != "Deployment"]
    # A role that starts in order may start after the pods of the others have ended.
    waiting = [pods for pods in users if value_at(pods.item, WAITING) == WAITS]
    together = [[pods for pods in users if pods not in waiting], *([pods] for pods in waiting)]
    users = max(together, key=_pod_count)
    count, modes = _pod_count(users), spec.get("accessModes")
    if count > 1 and modes == ["ReadWriteOncePod"]:
        message = f"{count} pods use the claim {name}, but ReadWriteOncePod allows one pod"
        return error((), message, "write accessModes: [ReadWriteMany]")
    # A volume that exists, for example on NFS, may accept more than its access modes say.
    if (
        count > 1
        and modes == ["ReadWriteOnce"]
        and not (spec.get("volumeName") or spec.get("selector"))
        and any(node_count(pods) != 1 and not own_terms(pods, "podAffinity") for pods in users)
    ):
        message = (
            f"{count} pods use the claim {name}, but with ReadWriteOnce only the pods of one"
            " node can use it"
        )
        hint = "write accessModes: [ReadWriteMany], with a storage class that supports it"
        return warning((), message, hint)
    return None


WAITING: ValuePath = ("metadata", "annotations", SUPERVISOR)


def _pod_count(users: list[Pods]) -> int:
    return sum(pods.count or 1 for pods in users)


STORAGE: ValuePath = ("resources", "requests", "storage")


@of_objects
def tiny_volume(job: Objects) -> Iterator[Located]:
    """Report a volume of a few bytes, whose size lacks a unit.

    The kubelet evicts a pod whose directory on disk is larger. Many provisioners round up.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        shmSize: 512m
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        claims: {data: {accessModes: [ReadWriteMany], resources: {requests: {storage: 100}}}}
        volumes: {data: {mountPath: /data, pvc: data}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        shmSize: 512Mi
        claims: {data: {accessModes: [ReadWriteMany], resources: {requests: {storage: 100Gi}}}}
        volumes: {data: {mountPath: /data, pvc: data}}
        roles: {worker: {replicas: 2}}
    """
    sizes = (("emptyDir", "sizeLimit"), ("ephemeral", "volumeClaimTemplate", "spec", *STORAGE))
    for pods in job.distinct_pods:
        memory = (each.amounts("limits").get("memory") for each in pods.containers)
        has_few_bytes = any(map(few_bytes, memory))
        for path, volume in pods.volumes():
            is_shm = volume["name"] == "mlgen-shm"
            if is_shm and has_few_bytes:  # its size is half of the memory, which is reported
                continue
            for steps in sizes:
                if few := few_bytes(value_at(volume, steps)):
                    found = pods.error((*path, *steps), *few, "bad-value")
                    found = found.as_warning(unless=steps == sizes[0] and on_disk(volume))
                    yield found.or_at((*role_path(pods.item), *(("shmSize",) if is_shm else ())))
    for name, item in job.claims.items():
        if few := few_bytes(value_at(item, ("spec", *STORAGE))):
            yield Located(item, (), warning(("claims", name, *STORAGE), *few, "bad-value"))


@of_objects
def git_address(job: Objects) -> Iterator[Located]:
    """Report an address that git cannot clone, or that contains a password.

    An image of the user's own may contain keys.

    wrong:
        framework: pytorch
        command: [torchrun, /code/train.py]
        volumes:
          code: {mountPath: /code, git: {repository: "https://gitlab.com/a/b/-/tree/main"}}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, /code/train.py]
        volumes: {code: {mountPath: /code, git: {repository: "ssh://git@git.lab/a.git"}}}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, /code/train.py]
        volumes: {code: {mountPath: /code, git: {repository: "https://me:s3@git.lab/a.git"}}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, /code/train.py]
        volumes:
          code: {mountPath: /code, git: {repository: "https://git.lab/team/sub/tree.git"}}
          more: {mountPath: /more, git: {repository: "git@git.lab:a/b.git", secret: keys}}
          other: {mountPath: /other, git: {repository: "https://git.lab/a/b/tree/c.git"}}
          mirror: {mountPath: /mirror, git: {repository: "file:///mirror/a.git"}}
        roles: {worker: {replicas: 2}}
    """
    own_image = value_at(job.job_file, ("spec", "helpers", "gitImage"))
    for path, volumes, _ in holders(job.job_file):
        for name, volume in volumes.items():
            git = value_at(volume, ("git",)) or {}
            value = str(git.get("repository", ""))
            found = None
            if re.fullmatch(PAGE, value):
                repository = re.sub(r"(/-)?/(tree|blob|raw|commits?|pull|src)/.*", "", value)
                message = f"{value} is the address of a web page, which git cannot clone"
                hint = f"write repository: {repository}, and revision: with the branch or tag"
                found = error((), message, hint, "bad-value")
            elif re.match(r"https?://([^/@:]*:[^/@]+@|gh[pousr]_\w+@)", value):
                message = (
                    "the repository's address contains a password or token, which is readable"
                    " in the manifests"
                )
                hint = "remove it from the address, and name a Secret with the key in secret"
                found = warning((), message, hint, "secret-in-env")
            elif re.match(r"ssh://|[\w.-]+@[\w.-]+:", value) and not (
                own_image or git.get("secret")
            ):
                message = f"git needs a key for {value}, but the volume has no secret"
                hint = (
                    "write secret: with the name of a Secret that contains the key, or an https"
                    " address"
                )
                found = warning((), message, hint, "missing-field")
            if found:
                at = (*path, "volumes", name, "git", "repository")
                yield Located(job.items[0], (), replace(found, path=at))


PAGE = (
    r"(?s)(?!.*\.git$)https?://([^/]+/[^/]+/[^/]+/(tree|blob)|.*/-/(tree|blob|raw|commits?)"
    r"|(github\.com|bitbucket\.org)/[^/]+/[^/]+/(raw|commits?|pull|src))/.+"
)
"""The address of a page of a repository at GitHub, GitLab, Gitea or Bitbucket."""
