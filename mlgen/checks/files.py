"""Containers → problems with the files and directories that their commands read and write.

A path may be on no volume, on a volume without this file, or on one that cannot be written to.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, islice, pairwise
from typing import Any

from mlgen.checks.job_file import in_job_file
from mlgen.checks.pods import Container, Located, Objects, of_containers
from mlgen.checks.volumes import (
    DEEPEST,
    FILE,
    READ_ONLY,
    WRITABLE,
    creates_files,
    files_in,
    is_filled,
    is_read_only,
    mount_at,
    source_of,
)
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.values import value_at
from mlgen.launch.line import Line
from mlgen.objects.labels import ROLE
from mlgen.problems import Problem, ValuePath, did_you_mean
from mlgen.resources import table
from mlgen.topology import INDEX_NAME

WRITES = table("checks/writes")
"""How programs are told where to write. Patterns:

    options: options with a directory that a program writes.
    reads: words that give such options another meaning.
    variables: variables with such a directory.
    readers: programs that only read these directories.
    copies: programs that write to their last argument.
    checkpoints: options with the directory of checkpoints, from which a program also continues.
    model: options with the directory in which an evaluator finds checkpoints.
"""


def _words(container: Container) -> Iterator[tuple[ValuePath, str]]:
    """Yield the words of all commands, with their paths below the container."""
    for line in container.lines.lines:
        yield from zip(line.paths, line.words, strict=True)


@of_containers
def file_over_directory(container: Container) -> Iterator[Located]:
    """Report a file that is mounted at the path of its directory.

    With subPath, mountPath is the path of the file:
    https://kubernetes.io/docs/concepts/storage/volumes/#using-subpath

    wrong:
        framework: pytorch
        command: [torchrun, /app/run.py]
        volumes: {code: {mountPath: /app, configMap: code, subPath: run.py}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, /app/run.py]
        volumes: {code: {mountPath: /app/run.py, configMap: code, subPath: run.py}}
        roles: {worker: {replicas: 2}}
    """
    for at, mount, volume in container.mounts:
        folder, name = mount["mountPath"], str(mount.get("subPath") or "").rpartition("/")[2]
        if source_of(volume) not in READ_ONLY or not re.fullmatch(FILE, name):
            continue
        below = (word for _, word in _words(container) if folder in _parents(word))
        if path := next(below, None):
            message = f"subPath: {mount['subPath']} makes {folder} a file, so {path} does not exist"
            hint = f"write mountPath: {folder}/{name}, or remove subPath"
            yield container.warning(at, message, hint, "volume")


def _parents(path: str) -> Iterator[str]:
    """Return the first folders that contain an absolute path."""
    parts = path.split("/", DEEPEST) if path.startswith("/") else []
    return accumulate(parts[:-1], "{}/{}".format)


MOST_FILES = 50
"""The number of files that a message lists."""


def _missing(path: str, volume: Object, files: Mapping[str, None]) -> str:
    more = ["…"] if len(files) > MOST_FILES else []
    shown = ", ".join([*islice(files, MOST_FILES), *more])
    return f"{path} does not exist: the volume {volume['name']} contains only {shown}"


CREATES_NONE = r"cd|export|set|exec|echo|source|\.|ulimit|sleep|date|nvidia-smi|\w+=.*"
"""Commands that create no file."""


@of_containers
def missing_file(container: Container) -> Iterator[Located]:
    """Report a file that is not on the volume at its path.

    The volume has only the job's own files, or it is empty and hides the directory of the image. A
    script may create or test for files, so only other command lines are compared.

    wrong:
        framework: pytorch
        command: [torchrun, /app/rnu.py]
        volumes: {code: {mountPath: /app, files: {run.py: ""}}}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, b.py]
        workingDir: /app
        volumes: {code: {mountPath: /app, files: {a.py: ""}}}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [sh, -c, export A=1; torchrun /app/run.py]
        volumes: {code: {mountPath: /app, emptyDir: {}}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, /app/run.py, --out=/tmp/x.pt]
        volumes: {code: {mountPath: /app, files: {run.py: ""}}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, run.py, --config=/conf/a.yaml]
        volumes: {code: {mountPath: /conf, files: {a.yaml: ""}}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [sh, -c, "if [ -f /app/b.sh ]; then . /app/b.sh; fi; torchrun a.py"]
        volumes: {code: {mountPath: /app, files: {a.sh: ""}}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [sh, -c, make-code /app; torchrun /app/run.py]
        volumes: {code: {mountPath: /app, emptyDir: {}}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, /app/run.py]
        volumes: {code: {mountPath: /app, git: {repository: "https://git.lab/a.git"}}}
        roles: {worker: {replicas: 2}}
    """
    if creates_files(container):
        return
    folders, directory = container.folders, str(container.data.get("workingDir") or "")
    is_first = True
    for at, word in _words(container):
        path = word.rpartition("=")[2]
        is_script = is_first and bool(re.search(r"[^/]\.(py|sh)$", word))
        is_first = is_first and not is_script
        if is_script and path[0] not in "/$~-" and directory.startswith("/"):
            path = f"{directory.rstrip('/')}/{path.removeprefix('./')}"
        found = mount_at(folders, path) if re.fullmatch(r"/[\w./-]+\.\w+", path) else None
        if found is None or ".." in path or found[1].get("subPath"):
            continue
        _, mount, volume = found
        folder, files = mount["mountPath"], files_in(container.job, volume)
        file = path.removeprefix(folder.rstrip("/")).lstrip("/")
        if files and file not in files:
            hint = did_you_mean(file, files) or f"add {file} to the files"
            if file == "discover_hosts.sh":
                hint = (
                    "add options.elasticPolicy, with which mlgen writes it, or use --hostfile"
                    " /etc/mpi/hostfile"
                )
            lack = container.error(at, _missing(path, volume, files), hint, "volume")
            yield lack.as_warning(unless=is_script)
        elif (
            is_script
            and source_of(volume) == "emptyDir"
            and not (
                is_filled(container, volume)
                or any(_may_create(line, word) for line in container.lines.lines)
            )
        ):
            message = (
                f"{path} does not exist: the empty volume {volume['name']} hides {folder} of"
                " the image"
            )
            hint = "mount the volume at another path"
            yield container.error(at, message, hint, "volume")


def _may_create(line: Line, file: str) -> bool:
    """Return whether a command may create a file that another one runs."""
    return file not in line.words and not re.fullmatch(CREATES_NONE, line.words[0])


def _writes(container: Container) -> Iterator[tuple[ValuePath, str, str]]:
    """Yield the directories that a program writes to: path, option or variable, directory."""
    for line in container.lines.lines:
        yield from _written_by(line)
    for script in container.lines.scripts:
        for redirection, folder in re.findall(r"(\d?>>?)[^\S\n]*(/[^\s\"'`;|&()]+)", script.text):
            yield script.path, redirection, folder
    for number, item in enumerate(container.data.get("env") or []):
        value = str(item.get("value") or "")
        if re.fullmatch(WRITES["variables"], item["name"]):
            yield ("env", number, "value"), item["name"], value


def _written_by(line: Line) -> Iterator[tuple[ValuePath, str, str]]:
    """Yield the directories in the arguments of a command."""
    if not any(re.fullmatch(WRITES["readers"], word.rpartition("/")[2]) for word in line.words):
        for at, option, folder in _options(line):
            if re.fullmatch(WRITES["options"], option) and not re.search(WRITES["reads"], option):
                yield at, option, folder
    copies = re.match(WRITES["copies"], " ".join(line.words))
    if copies:
        targets = [word for word in line.words if not word.startswith("-")]
        yield line.paths[-1], copies[1], targets[-1]


LONGEST = 100
"""The length of an option. Longer words are not options."""


def _options(line: Line) -> Iterator[tuple[ValuePath, str, str]]:
    """Yield the options and settings of a command, with their paths and values."""
    for (at, word), after in pairwise((*zip(line.paths, line.words, strict=True), ((), ""))):
        option, equals, value = word.partition("=")
        if len(option) < LONGEST and (equals or word.startswith("-")):
            yield at, option, value if equals else after[1]


@of_containers
def read_only_output(container: Container) -> Iterator[Located]:
    """Report a directory that a program writes to, but that is read-only.

    `schemas/checks/writes.json` lists the options and programs that write.

    wrong:
        framework: pytorch
        command: [torchrun, train.py, --save-dir, /out/1]
        volumes: {out: {mountPath: /out, pvc: out, readOnly: true}}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [sh, -c, torchrun train.py > /out/log]
        volumes: {out: {mountPath: /out, configMap: out}}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        env: {WANDB_DIR: /out}
        volumes: {out: {mountPath: /out, secret: out}}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        initContainers: [{name: a, image: busybox, command: [aws, s3, sync, "s3://a", /data]}]
        volumes: {data: {mountPath: /data, pvc: data, readOnly: true}}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py, --save-dir=/out]
        claims: {out: {accessModes: [ReadOnlyMany], resources: {requests: {storage: 9Gi}}}}
        volumes: {out: {mountPath: /out, pvc: out}}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py, --output_dir=/out]
        template:
          spec: {containers: [{name: main, securityContext: {readOnlyRootFilesystem: true}}]}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py, --data_dir=/in, --load_dir=/in, --output_dir, /in/out]
        volumes:
          in: {mountPath: /in, pvc: in, readOnly: true}
          out: {mountPath: /in/out, pvc: out}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [python, plot_loss.py, --log-dir=/logs]
        volumes: {logs: {mountPath: /logs, pvc: logs, readOnly: true}}
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        initContainers: [{name: a, image: busybox, command: [aws, s3, sync, /data, "s3://a"]}]
        volumes: {data: {mountPath: /data, pvc: data, readOnly: true}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [sh, -c, torchrun run.py > /dev/null]
        volumes: {devices: {mountPath: /dev, hostPath: /dev, readOnly: true}}
        roles: {worker: {replicas: 2}}
    """
    folders = container.folders
    for at, label, folder in _writes(container):
        if not re.match("/(?!dev/)", folder):
            continue
        found = mount_at(folders, folder)
        message = f"{label} writes to {folder}, "
        if found is None:
            if value_at(container.data, ("securityContext", "readOnlyRootFilesystem")):
                message += "which is on no volume, and readOnlyRootFilesystem is true"
                yield container.warning(at, message, f"mount a volume at {folder}", "volume")
            continue
        _, mount, volume = found
        claim = value_at(volume, ("persistentVolumeClaim", "claimName"))
        item = container.job.claims.get(str(claim))
        hint = WRITABLE
        if value_at(item, ("spec", "accessModes")) == ["ReadOnlyMany"]:
            hint = "write accessModes: [ReadWriteMany] in its claim"
        elif not is_read_only(mount, volume):
            continue
        elif (kind := source_of(volume)) in READ_ONLY:
            hint = f"mount a writable volume, because a {kind} is read-only"
        message += f"but the volume {volume['name']} is mounted read-only"
        yield container.warning(at, message, hint, "volume")


def shared_outputs(
    combinations: Sequence[Objects], job_file: Mapping[str, Any]
) -> Iterator[Problem]:
    """Yield a warning for each directory that several combinations of a matrix write to.

    A program that knows the name of its pod or job may write to a directory of this name.

    Args:
        combinations: the objects of each combination.
        job_file: the data of the job file of the first combination.
    """
    counts = Counter(key for job in combinations for key in dict(_outputs(job)))
    for key, (container, at) in dict(_outputs(combinations[0])).items():
        if (count := counts[key]) > 1:
            path = key[-1]
            message = f"{count} combinations of the matrix write to {path}"
            source = "{fieldRef: {fieldPath: \"metadata.labels['mlgen.dev/job']\"}}"
            hint = f"write {path}/$(RUN), with env: {{RUN: {{valueFrom: {source}}}}}"
            yield in_job_file(container.warning(at, message, hint, "volume"), job_file)


def _outputs(job: Objects) -> Iterator[tuple[tuple[str, ...], tuple[Container, ValuePath]]]:
    """Yield the directories on shared volumes that a job's programs write to.

    Each has a key that identifies it in the cluster, and its place.
    """
    for pods in job.distinct_pods:
        for container in pods.containers:
            env = [each for each in container.data.get("env") or () if each["name"] != INDEX_NAME]
            if re.search(r"['\"]metadata\.", str(env)):
                continue
            folders = container.folders
            for at, _, folder in _writes(container):
                _, mount, volume = mount_at(folders, folder) or ((), {}, {})
                source = source_of(volume)
                is_same = "subPathExpr" not in mount and "$" not in folder
                if is_same and source in ("persistentVolumeClaim", "nfs"):
                    key = (str(volume[source]), str(mount.get("subPath")), folder)
                    yield key, (container, at)


@of_containers
def own_checkpoints(container: Container) -> Iterator[Located]:
    """Report checkpoints that the evaluator cannot read, because its volume is its own.

    wrong:
        framework: tensorflow
        command: [python, train.py, --model_dir=/model]
        roles: {chief: {}, worker: {replicas: 2}, evaluator: {}}
    right:
        framework: tensorflow
        command: [python, train.py, --model_dir=/model]
        volumes: {model: {mountPath: /model, pvc: model}}
        roles: {chief: {}, worker: {replicas: 2}, evaluator: {}}
    """
    if container.pods.template["metadata"]["labels"].get(ROLE) != "evaluator":
        return
    for at, _, folder in _checkpoints(container, WRITES["model"]):
        found = mount_at(container.folders, folder)
        kind = source_of(found[2]) if found else ""
        if kind in ("", "emptyDir", "ephemeral"):
            own = f"is in its own {kind} volume" if kind else "is on no volume"
            message = (
                f"the evaluator reads {folder}, which {own}, so it finds no checkpoints of"
                " other replicas"
            )
            hint = (
                "mount a volume that all replicas share, such as a PersistentVolumeClaim, at"
                f" {folder}"
            )
            yield container.warning(at, message, hint, "volume")


def _checkpoints(container: Container, pattern: str) -> Iterator[tuple[ValuePath, str, str]]:
    """Yield the options with a directory of checkpoints: path, option, directory."""
    for line in container.lines.lines:
        for at, option, folder in _options(line):
            if re.fullmatch(pattern, option) and folder.startswith("/"):
                yield at, option, folder


@of_containers
def lost_checkpoints(container: Container) -> Iterator[Located]:
    """Report checkpoints that are lost when the replicas restart in new pods.

    A new pod replaces a replica in a gang, or with restartPolicy Never and a backoffLimit. Files on
    no volume are lost with the container, and those in an emptyDir with the pod:
    https://kubernetes.io/docs/concepts/storage/volumes/#emptydir. Another command or container may
    copy the directory.

    wrong:
        framework: pytorch
        command: [torchrun, train.py, --checkpoint-dir, /ckpt/1]
        volumes: {ckpt: {mountPath: /ckpt, emptyDir: {}}}
        runPolicy: {restartScope: All}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py, --output_dir=/out]
        runPolicy: {restartScope: All}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [python, train.py, hydra.run.dir=/out]
        runPolicy: {backoffLimit: 3}
        restartPolicy: Never
        roles: {worker: {}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        env: {CHECKPOINT_DIR: /ckpt}
        runPolicy: {restartScope: All}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py, --checkpoint-dir, /ckpt/1, --output_dir=s3://bucket/out]
        volumes: {ckpt: {mountPath: /ckpt, pvc: ckpt}}
        runPolicy: {restartScope: All}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py, --checkpoint-dir=/ckpt]
        volumes: {ckpt: {mountPath: /ckpt, emptyDir: {}}}
        restartPolicy: OnFailure
        roles: {worker: {}}
    right:
        framework: pytorch
        command: [torchrun, train.py, --output_dir=out, --save_dir=/tmp/x, --ckpt-path=/model/a.pt]
        runPolicy: {restartScope: All}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [sh, -c, torchrun train.py --output_dir=/out && aws s3 sync /out s3://bucket/out]
        runPolicy: {restartScope: All}
        roles: {worker: {replicas: 2}}
    """
    spec, data = container.pods.item["spec"], container.data
    limits = (spec.get("backoffLimit"), spec.get("backoffLimitPerIndex"))
    replaces = spec["template"]["spec"].get("restartPolicy") == "Never" and any(limits)
    if not replaces or "restartPolicyRules" in data:  # with these, pods restart in place
        return
    variables = [
        (("env", number, "value"), item["name"], str(item.get("value") or ""))
        for number, item in enumerate(data.get("env") or ())
        if re.fullmatch("(CHECKPOINTS?|CKPT|OUTPUT|SAVE)_DIR", item["name"])
    ]
    commands = [" ".join(line.words) for line in container.lines.lines]
    for at, name, folder in (*_checkpoints(container, WRITES["checkpoints"]), *variables):
        uses = sum(folder in command or f"${name}" in command for command in commands)
        if uses > 1 or not re.match("/(?!(tmp|var/tmp|dev/shm)(/|$))", folder):
            continue
        found = mount_at(container.folders, folder)
        reason = f"{folder} is on no volume"
        if found:
            reason = f"the volume {found[2]['name']} is an emptyDir"
            if source_of(found[2]) != "emptyDir" or is_filled(container, found[2]):
                continue
        elif "path" in name or re.search(r"\.\w+$", folder):  # a file, or a model of the image
            continue
        message = (
            f"the checkpoints in {folder} are lost when the replicas restart in new pods,"
            f" because {reason}"
        )
        hint = f"mount a PersistentVolumeClaim or another shared volume at {folder}"
        yield container.warning(at, message, hint, "volume")
