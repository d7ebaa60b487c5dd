"""Objects of a job → problems with mounts, files and claims.

The API server accepts these values, but the volume cannot be mounted, or the program does not find
its files.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain, islice
from typing import Any

from mlgen.checks.amounts import few_bytes
from mlgen.checks.cluster import node_count, own_terms
from mlgen.checks.cluster_facts import FACTS, at_pod, problem
from mlgen.checks.job_file import holders, in_job_file
from mlgen.checks.pods import Located, Objects, Pods, command_words, value_at
from mlgen.kubernetes.limits import INT32_MAX
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.validation.rows import mapping
from mlgen.objects.labels import ROLE, SUPERVISOR, WAITS
from mlgen.problems import Problem, ValuePath, did_you_mean
from mlgen.shell import is_shell, once, simple_commands
from mlgen.topology import INDEX_NAME

READ_ONLY = ("configMap", "secret", "projected", "downwardAPI", "image")
"""Volumes that are always mounted read-only."""


def storage_problems(job: Objects, job_file: Mapping[str, Any] | None = None) -> Iterator[Problem]:
    """Yield the problems of a job's objects, with their paths in the job file.

    Args:
        job: the objects of the job.
        job_file: the data of the job file; None if there is none.
    """
    checks = (_few_bytes, _mounts, _unmounted, _uses, _checkpoints)
    each = (check(job, pods) for pods in job.distinct_pods for check in checks)
    for found in chain(_claims(job), *each):
        yield in_job_file(found, job_file or {})
    # An image of the user's own may contain keys.
    own_image = value_at(job_file or {}, ("spec", "helpers", "gitImage"))
    for path, volumes, _ in holders(job_file or {}):
        for name, volume in volumes.items():
            if isinstance(volume.get("git"), dict):
                git = {"secret": own_image, **volume["git"]}
                yield from _git((*path, "volumes", name, "git"), git)


DEEPEST = 50
"""The number of folders in a path that are looked up."""

Mount = tuple[ValuePath, Object, Object]
"""A mount of a container: its path in the object, the mount, and the volume."""


def _mounts_of(pods: Pods, path: ValuePath, container: Object) -> list[Mount]:
    volumes = pods.named_volumes
    return [
        ((*path, "volumeMounts", number), mount, volumes[mount["name"]])
        for number, mount in enumerate(container.get("volumeMounts") or [])
        if mount.get("name") in volumes and mount.get("mountPath")
    ]


def _folders(mounts: list[Mount]) -> dict[str, Mount]:
    """Return mounts by the paths without the slash at the end; the first of several."""
    return {mount[1]["mountPath"].rstrip("/"): mount for mount in reversed(mounts)}


def _holder(folders: Mapping[str, Mount], path: str) -> Mount | None:
    """Return the mount that contains a path, if any."""
    for _ in range(min(path.count("/"), DEEPEST) + 1):
        if path in folders:
            return folders[path]
        path = path.rpartition("/")[0]
    return None


def _source(volume: Object) -> str:
    """Return the source of a volume: `configMap`. The default is emptyDir."""
    return next(
        (kind for kind in volume if kind != "name" and volume[kind] is not None), "emptyDir"
    )


def _is_read_only(mount: Object, volume: Object) -> bool:
    kind = _source(volume)
    return kind in READ_ONLY or bool(
        mount.get("readOnly") or (volume.get(kind) or {}).get("readOnly")
    )


def _mounts(job: Objects, pods: Pods) -> Iterator[Located]:
    """Report mounts that replace files of the image, or that the container runtime cannot make."""
    for path, container in pods.containers():
        mounts = _mounts_of(pods, path, container)
        folders = _folders(mounts)
        for at, mount, volume in mounts:
            folder, name = mount["mountPath"], volume["name"]
            file = folder.rstrip("/").rpartition("/")[2]
            whole = not (mount.get("subPath") or mount.get("subPathExpr"))
            whole = whole and _source(volume) != "hostPath"
            values = {"path": folder, "volume": name}
            parent, slash, _ = folder.rstrip("/").rpartition("/")
            outer = _holder(folders, parent) if slash else None
            if whole and re.fullmatch(FACTS["system"], folder):
                # The volume may contain the files of the image. runc rejects these two.
                certain = folder.rstrip("/") in ("", "/proc")
                yield at_pod(pods, (*at, "mountPath"), "system", **values).as_warning(
                    unless=certain
                )
            elif whole and re.fullmatch(FACTS["file"], file):
                yield at_pod(pods, (*at, "mountPath"), "directory", name=file)
            elif whole and re.fullmatch(FACTS["shared_memory"], folder) and _on_disk(volume):
                yield at_pod(pods, (*at, "mountPath"), "shared-disk", **values)
            elif (
                whole
                and re.fullmatch(FACTS["programs"], folder)
                and _source(volume) == "emptyDir"
                and not _is_filled(pods, container, name)
                and not _creates(container)
            ):
                yield at_pod(pods, (*at, "mountPath"), "system", **values).as_warning()
            if _is_read_only(mount, volume) and re.fullmatch(FACTS["scratch"], folder):
                found = {**values, "label": "the program", "hint": WRITABLE}
                yield at_pod(pods, (*at, "mountPath"), "read-only", **found)
            if (
                outer
                and (_source(outer[2]) == "image" or _is_file(mount, outer[2]))
                and file not in (_files(job, outer[2]) or ())
            ):
                values["volume"] = outer[2]["name"]
                yield at_pod(pods, (*at, "mountPath"), "nested", **values)


def _is_file(mount: Object, outer: Object) -> bool:
    """Return whether a mount in a read-only volume is a file.

    The kubelet creates a directory at its path before it writes the volume: MakeNestedMountpoints
    in pkg/volume/util/nested_volumes.go.
    """
    name = str(mount.get("subPath") or "").rpartition("/")[2]
    return _source(outer) in READ_ONLY and bool(re.fullmatch(FACTS["file"], name))


def _on_disk(volume: Object) -> bool:
    """Return whether a volume is an emptyDir on the node's disk."""
    empty = volume.get("emptyDir")
    return _source(volume) == "emptyDir" and not (empty or {}).get("medium")


def _is_filled(pods: Pods, container: Object, volume: str) -> bool:
    """Return whether another container of a pod mounts a volume, and may fill it."""
    own = any(mount["name"] == volume for mount in container.get("volumeMounts") or ())
    return pods.mounts[volume] > own


def _creates(container: Object) -> bool:
    """Return whether a container runs a shell script that may create or test for files."""
    program = [text for _, text in command_words(container)]
    return any(map(is_shell, program)) and bool(re.search(CREATES, " ".join(program)))


def _unmounted(_: Objects, pods: Pods) -> Iterator[Located]:
    """Report volumes that no container mounts."""
    used = {
        mount["name"]
        for _, container in pods.containers()
        for field in ("volumeMounts", "volumeDevices")
        for mount in container.get(field) or ()
    }
    for path, volume in pods.volumes():
        if volume["name"] not in used:
            yield at_pod(pods, path, "unmounted", volume=volume["name"])


def _uses(job: Objects, pods: Pods) -> Iterator[Located]:
    """Report paths of the command line that the mounts do not contain, or that are read-only."""
    for path, container in pods.containers():
        mounts, words = _mounts_of(pods, path, container), _words(_texts(path, container))
        parts = any(mount.get("subPath") for _, mount, _ in mounts)
        within = reversed(words) if parts else ()
        parents = {parent: text for _, text in within for parent in _parents(text)}
        for at, mount, volume in mounts:
            folder, name = mount["mountPath"], str(mount.get("subPath") or "").rpartition("/")[2]
            below = parents.get(folder)
            if below and _source(volume) in READ_ONLY and re.fullmatch(FACTS["file"], name):
                values = {"sub": mount["subPath"], "mount": folder, "path": below, "name": name}
                yield at_pod(pods, at, "not-directory", **values)
        folders = _folders(mounts)
        yield from _missing_files(job, pods, container, mounts, words)
        for at, label, folder in _writes(path, container):
            holder = _holder(folders, folder)
            values = {"label": label, "path": folder}
            if holder and (_is_read_only(*holder[1:]) or _only_read(job, holder[2])):
                kind, name = _source(holder[2]), holder[2]["name"]
                hint = f"mount a writable volume, because a {kind} is read-only"
                hint = hint if kind in READ_ONLY else WRITABLE
                if not _is_read_only(*holder[1:]):
                    hint = "write accessModes: [ReadWriteMany] in its claim"
                yield at_pod(pods, at, "read-only", **values, volume=name, hint=hint)
            elif not holder and value_at(container, ("securityContext", "readOnlyRootFilesystem")):
                yield at_pod(pods, at, "read-only-root", **values)


def _parents(path: str) -> Iterator[str]:
    """Return the first folders that contain an absolute path."""
    parts = path.split("/", DEEPEST) if path.startswith("/") else []
    return accumulate(parts[:-1], "{}/{}".format)


def _only_read(job: Objects, volume: Object) -> bool:
    """Return whether a volume is a claim of the job that pods can only read."""
    name = value_at(volume, ("persistentVolumeClaim", "claimName"))
    claim = job.of_kind("PersistentVolumeClaim").get(str(name))
    modes: Any = value_at(claim, ("spec", "accessModes"))
    return bool(modes == ["ReadOnlyMany"])


WRITABLE = "remove readOnly, or mount another volume there"

LONGEST = 100
"""The length of an option. Longer words are not options."""


Texts = tuple[tuple[ValuePath, str], ...]
"""Words with their paths in the object."""


def _texts(path: ValuePath, container: Object) -> Texts:
    """Return the words of the command line."""
    return tuple(((*path, *at), text) for at, text in command_words(container))


@once
def _words(texts: Texts) -> Iterator[tuple[ValuePath, str]]:
    """Yield the words of a command line and of shell scripts in it."""
    for at, text in texts:
        yield from ((at, word) for word in re.findall(WORD, text))


WORD = r"""[^\s"'`;|&()]+"""


def _writes(path: ValuePath, container: Object) -> Iterator[tuple[ValuePath, str, str]]:
    """Yield the directories that a program writes to: path in the object, option, directory."""
    yield from _written(_texts(path, container))
    for number, item in enumerate(container.get("env") or []):
        value = str(item.get("value") or "")
        if re.fullmatch(FACTS["writes"]["variables"], item["name"]) and value.startswith("/"):
            yield (*path, "env", number, "value"), item["name"], value


@once
def _written(texts: Texts) -> Iterator[tuple[ValuePath, str, str]]:
    yield from _outputs_of(_words(texts))
    yield from _copies(texts)


def _outputs_of(words: Texts) -> Iterator[tuple[ValuePath, str, str]]:
    """Yield the directories in the options and redirections of a command line."""
    patterns = FACTS["writes"]
    only_reads = any(
        re.fullmatch(patterns["readers"], text.rpartition("/")[2]) for _, text in words
    )
    following = [text for _, text in words[1:]] + [""]
    for (at, text), after in zip(words, following, strict=False):
        option, equals, value = text.partition("=")
        is_short = len(option) < LONGEST and (equals or option[0] == "-")
        is_option = is_short and re.fullmatch(patterns["options"], option)
        redirects = re.fullmatch(r"\d?>>?", text) or text == "tee"
        folder = value if equals else after
        reads = not redirects and (only_reads or re.search(patterns["reads"], option))
        if (is_option or redirects) and not reads and re.match("/(?!dev/)", folder):
            yield at, text if redirects else option, folder


def shared_outputs(
    combinations: Sequence[Objects], job_file: Mapping[str, Any]
) -> Iterator[Problem]:
    """Yield a warning for each directory that several combinations of a matrix write to.

    A program that knows the name of its pod or job may write to a directory of this name.

    Args:
        combinations: the objects of each combination.
        job_file: the data of the job file of the first combination.
    """
    first = dict(_outputs(combinations[0]))
    counts = Counter(key for job in combinations for key in dict(_outputs(job)))
    for key, found in first.items():
        if (count := counts[key]) > 1:
            yield in_job_file(at_pod(*found, "shared-output", count=count, path=key[-1]), job_file)


def _outputs(job: Objects) -> Iterator[tuple[tuple[str, ...], tuple[Pods, ValuePath]]]:
    """Yield the directories on shared volumes that a job's programs write to.

    Each has a key that identifies it in the cluster, and its place.
    """
    for pods in job.distinct_pods:
        for path, container in pods.containers():
            env = [each for each in container.get("env") or () if each["name"] != INDEX_NAME]
            is_named = re.search(r"['\"]metadata\.", str(env))
            folders = _folders([] if is_named else _mounts_of(pods, path, container))
            for at, _, folder in _writes(path, container):
                _, mount, volume = _holder(folders, folder) or ((), {}, {})
                if _source(volume) in SHARED and "subPathExpr" not in mount and "$" not in folder:
                    source = str(volume[_source(volume)])
                    yield (source, str(mount.get("subPath")), folder), (pods, at)


SHARED = ("persistentVolumeClaim", "nfs")
"""Volumes that pods of several jobs can write to."""


def _copies(texts: Texts) -> Iterator[tuple[ValuePath, str, str]]:
    """Yield the targets of programs that copy files to their last argument."""
    for at, words in _commands(texts):
        program = re.match(FACTS["copies"], " ".join(words))
        targets = [word for word in words if not word.startswith("-")]
        if program and re.match("/(?!dev/)", targets[-1]):
            yield at, program[1], targets[-1]


def _commands(texts: Texts) -> Iterator[tuple[ValuePath, list[str]]]:
    """Yield the commands of a command line, also of the scripts of a shell, with their paths."""
    if any(is_shell(text) for _, text in texts):
        for at, text in texts:
            yield from ((at, words) for words in simple_commands(text) if " " in text)
    elif texts:
        yield texts[-1][0], [text for _, text in texts]


def _missing_files(
    job: Objects,
    pods: Pods,
    container: Object,
    mounts: list[Mount],
    words: Texts,
) -> Iterator[Located]:
    """Report files that are not among the job's own files, or that an empty volume hides.

    A script may create or test for files, so only other command lines are compared.
    """
    of_volumes = {id(volume): _files(job, volume) for _, _, volume in mounts}
    for at, mount, volume in mounts:
        files, file = of_volumes[id(volume)], str(mount.get("subPath") or "")
        if files and file and file not in files:
            values = _missing(file, file, volume, files)
            yield at_pod(pods, (*at, "subPath"), "no-file", **values).as_warning()
    if _creates(container):
        return
    commands = [words for _, words in _commands(_texts((), container))]
    folders = _folders(mounts)
    directory = str(container.get("workingDir") or "")
    is_script = (bool(re.search(r"[^/]\.(py|sh)$", text)) for _, text in words)
    script = next((number for number, found in enumerate(is_script) if found), None)
    for number, (at, text) in enumerate(words):
        path = text.rpartition("=")[2]
        if number == script and path[0] not in "/$~-" and directory.startswith("/"):
            path = f"{directory.rstrip('/')}/{path.removeprefix('./')}"
        holder = _holder(folders, path) if re.fullmatch(r"/[\w./-]+\.\w+", path) else None
        if holder is None or ".." in path or holder[1].get("subPath"):
            continue
        files = of_volumes[id(holder[2])]
        file = path.removeprefix(holder[1]["mountPath"].rstrip("/")).lstrip("/")
        if files and file not in files:
            values = _missing(path, file, holder[2], files)
            yield at_pod(pods, at, "no-file", **values).as_warning(unless=number == script)
        elif (
            number == script
            and _source(holder[2]) == "emptyDir"
            and not _is_filled(pods, container, holder[2]["name"])
            and not any(_may_create(words, text) for words in commands)
        ):
            values = {"path": path, "volume": holder[2]["name"], "mount": holder[1]["mountPath"]}
            yield at_pod(pods, at, "hidden", **values)


CREATES = r"\b(if|test|cp|mv|git|curl|wget|tar|unzip|rsync|aws|gsutil|mkdir|pip|tee)\b|\[|>"
"""Parts of a shell script that test for a file, or may create it."""


CREATES_NONE = r"cd|export|set|exec|echo|source|\.|ulimit|sleep|date|nvidia-smi|\w+=.*"
"""Commands that create no file."""


def _may_create(command: list[str], file: str) -> bool:
    """Return whether a command of a script may create a file that another one runs."""
    return file not in command and not re.fullmatch(CREATES_NONE, command[0])


def _files(job: Objects, volume: Object) -> dict[str, None] | None:
    """Return the files of a ConfigMap volume; None if the set does not contain the ConfigMap."""
    source = volume.get("configMap") or {}
    item = job.of_kind("ConfigMap").get(source.get("name", ""))
    if item is None:
        return None
    keys = [*(item.get("data") or ()), *(item.get("binaryData") or ())]
    return dict.fromkeys([each["path"] for each in source.get("items") or ()] or keys)


def _missing(path: str, file: str, volume: Object, files: Mapping[str, None]) -> dict[str, str]:
    hint = FACTS["own_files"].get(file) or did_you_mean(file, files) or f"add {file} to the files"
    shown = ", ".join([*islice(files, MOST_FILES), *(["…"] if len(files) > MOST_FILES else [])])
    return {"path": path, "volume": volume["name"], "files": shown, "hint": hint}


MOST_FILES = 50
"""The number of files that a message lists."""


def _checkpoints(_: Objects, pods: Pods) -> Iterator[Located]:
    """Report checkpoints that an evaluator or the next attempt cannot read."""
    evaluates = pods.template["metadata"]["labels"].get(ROLE) == "evaluator"
    # The supervisor replaces the pods of Jobs with this limit, and counts their restarts.
    limits = (pods.item["spec"].get(name) for name in ("backoffLimit", "backoffLimitPerIndex"))
    restarts = INT32_MAX in limits
    pattern = FACTS["checkpoints"] if evaluates else FACTS["lost"]
    for path, container in pods.containers() if evaluates or restarts else ():
        words = _words(_texts(path, container))
        folders = _folders(_mounts_of(pods, path, container))
        for number, (at, text) in enumerate(words):
            option, equals, value = text.partition("=")
            following = words[number + 1][1] if number + 1 < len(words) else ""
            folder = value if equals else following
            if not re.fullmatch(pattern, option) or not folder.startswith("/"):
                continue
            holder = _holder(folders, folder)
            kind = _source(holder[2]) if holder else ""
            if holder and not evaluates:
                name = holder[2]["name"]
                if kind == "emptyDir" and not _is_filled(pods, container, name):
                    yield at_pod(pods, at, "lost-checkpoints", path=folder, volume=name)
            elif evaluates and kind in ("", "emptyDir", "ephemeral"):
                own = f"is in its own {kind} volume" if kind else "is on no volume"
                yield at_pod(pods, at, "own-checkpoints", path=folder, kind=own)


def _claims(job: Objects) -> Iterator[Located]:
    """Report claims of one node or one pod that several pods use."""
    for name, item in job.of_kind("PersistentVolumeClaim").items():
        for rule, count in shared_by(job, name, item):
            path = ("spec", "claims", name, "accessModes")
            yield Located(item, (), problem(rule, path, count=count, claim=name))


def shared_claims(job: Objects) -> Iterator[tuple[str, Located]]:
    """Yield the existing claims that several pods use, each with its name and a problem.

    They are problems if the input contains the claim, and its access mode allows only one node.
    """
    path = ("persistentVolumeClaim", "claimName")
    used: dict[str, tuple[Pods, ValuePath]] = {}
    for pods in job.distinct_pods:
        for at, volume in pods.volumes():
            used.setdefault(value_at(volume, path) or "", (pods, (*at, *path)))
    for name in used.keys() - job.of_kind("PersistentVolumeClaim").keys() - {""}:
        for rule, count in shared_by(job, name, {"spec": {"accessModes": ["ReadWriteOnce"]}}):
            yield name, at_pod(*used[name], rule, count=count, claim=name)


def shared_by(job: Objects, name: str, claim: Object) -> Iterator[tuple[str, int]]:
    """Yield the rule that a claim breaks, and the number of pods that use it."""
    spec = mapping(claim, "spec")
    modes = spec.get("accessModes")
    users = [pods for pods in job.claim_users.get(name, ()) if pods.item["kind"] != "Deployment"]
    # A role that starts in order may start after the pods of the others have ended.
    waiting = [pods for pods in users if value_at(pods.item, WAITING) == WAITS]
    together = [[pods for pods in users if pods not in waiting], *([pods] for pods in waiting)]
    users = max(together, key=_pod_count)
    count = _pod_count(users)
    if count < 2 or not modes:  # noqa: PLR2004
        return
    if modes == ["ReadWriteOncePod"]:
        yield "one-pod", count
    # A volume that exists, for example on NFS, may accept more than its access modes say.
    elif (
        modes == ["ReadWriteOnce"]
        and not (spec.get("volumeName") or spec.get("selector"))
        and any(node_count(pods) != 1 and not own_terms(pods, "podAffinity") for pods in users)
    ):
        yield "one-node", count


WAITING: ValuePath = ("metadata", "annotations", SUPERVISOR)


def _pod_count(users: list[Pods]) -> int:
    return sum(pods.count or 1 for pods in users)


STORAGE: ValuePath = ("resources", "requests", "storage")


def _few_bytes(job: Objects, pods: Pods) -> Iterator[Located]:
    """Report volumes of a few bytes."""
    sizes: tuple[ValuePath, ...] = (
        ("emptyDir", "sizeLimit"),
        ("ephemeral", "volumeClaimTemplate", "spec", *STORAGE),
    )
    memory = (value_at(each, ("resources", "limits", "memory")) for _, each in pods.containers())
    has_few_bytes = any(few_bytes(text) for text in memory)
    for path, volume in pods.volumes():
        default = ("shmSize",) if volume["name"] == "mlgen-shm" else ()
        if default and has_few_bytes:  # its size is half of the memory, which is reported
            continue
        for steps in sizes:
            if values := few_bytes(value_at(volume, steps)):
                # The kubelet evicts a pod with a larger directory on disk.
                certain = steps[0] == "emptyDir" and _on_disk(volume)
                found = at_pod(pods, (*path, *steps), "few-bytes", **values).as_warning(
                    unless=certain
                )
                there = (*found.problem.path, *default)
                yield found._replace(problem=replace(found.problem, path=there))
    for name, item in job.of_kind("PersistentVolumeClaim").items():
        if values := few_bytes(value_at(item, ("spec", *STORAGE))):
            # Many provisioners round up.
            small = problem("few-bytes", ("spec", "claims", name, *STORAGE), **values)
            yield Located(item, (), small).as_warning()


def _git(path: ValuePath, git: Object) -> Iterator[Problem]:
    value = str(git.get("repository", ""))
    for row in FACTS["git"]:
        if re.fullmatch(row["like"], value) and not git.get(row.get("without", "")):
            repository = re.sub(r"(/-)?/(tree|blob|raw|commits?|pull|src)/.*", "", value)
            shown = {"value": value, "repository": repository}
            yield problem(row["problem"], (*path, "repository"), **shown)
