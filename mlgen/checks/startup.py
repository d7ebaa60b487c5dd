"""Containers → problems that keep them from starting, from being ready, or from their variables.

The kubelet and the container runtime reject these values, or the container waits forever.
"""

import re
from collections.abc import Iterator
from typing import Any

from mlgen.checks.job_file import holders
from mlgen.checks.pods import (
    HANDLERS,
    POD,
    Container,
    Located,
    Objects,
    Pods,
    of_containers,
    of_objects,
    of_pods,
    role_path,
)
from mlgen.kubernetes.quantity import natural
from mlgen.kubernetes.values import KEYS, value_at
from mlgen.launch.line import is_sidecar
from mlgen.problems import Problem, ValuePath, did_you_mean, error


@of_containers
def empty_program(container: Container) -> Iterator[Located]:
    """Report an empty command, which the container runtime cannot execute.

    wrong:
        framework: pytorch
        command: [""]
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py, ""]
        roles: {worker: {replicas: 2}}
    """
    if container.data.get("command") == [""]:
        message = "the container cannot start a program without a name"
        hint = "remove command, so that the image's entrypoint runs"
        yield container.error(("command",), message, hint)


@of_pods
def root_without_root(pods: Pods) -> Iterator[Located]:
    """Report user 0 with runAsNonRoot, which the kubelet rejects.

    pkg/kubelet/kuberuntime/security_context_others.go

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        template: {spec: {securityContext: {runAsNonRoot: true, runAsUser: 0}}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        template: {spec: {securityContext: {runAsNonRoot: true, runAsUser: 1000}}}
        roles: {worker: {replicas: 2}}
    """
    with_context = [(POD, pods.spec), *((each.path, each.data) for each in pods.containers)]
    for path, holder in with_context:
        context = holder.get("securityContext") or {}
        if context.get("runAsNonRoot") and context.get("runAsUser") == 0:
            message = "runAsNonRoot: true and runAsUser: 0 are mutually exclusive"
            hint = "write another user, or remove runAsNonRoot"
            yield pods.error((*path, "securityContext", "runAsUser"), message, hint)


@of_containers
def capability_prefix(container: Container) -> Iterator[Located]:
    """Report a capability that is written as in Linux, so that containerd ignores it.

    containerd adds CAP_ to the names:
    https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#set-capabilities-for-a-container

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        template:
          spec:
            containers:
            - {name: main, securityContext: {capabilities: {add: [CAP_IPC_LOCK]}}}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        template:
          spec: {containers: [{name: main, securityContext: {capabilities: {add: [IPC_LOCK]}}}]}
        roles: {worker: {replicas: 2}}
    """
    for field in ("add", "drop"):
        path = ("securityContext", "capabilities", field)
        for number, name in enumerate(value_at(container.data, path) or ()):
            if str(name).startswith("CAP_"):
                message = (
                    f"Kubernetes writes capabilities without CAP_, so containerd ignores {name}"
                )
                yield container.warning((*path, number), message, "remove CAP_", "bad-value")


@of_containers.when("runs_once")
def endless_init(container: Container) -> Iterator[Located]:
    """Report an init container that does not end, so that training never starts.

    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        initContainers: [{name: a, image: busybox, command: [sleep, infinity]}]
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        initContainers: [{name: a, image: busybox, command: [sh, -c, redis & sleep infinity]}]
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        initContainers:
        - {name: a, image: busybox, restartPolicy: Always, command: [tail, -f, /log]}
        - {name: b, image: "redis:7", args: [redis-cli, ping]}
        - {name: c, image: busybox, command: [sh, -c, tail -f /log & sleep 5]}
        roles: {worker: {replicas: 2}}
    """
    data = container.data
    # Arguments are for the image's own program, which may be any.
    is_known = data.get("command") or not data.get("args")
    if is_known and is_sidecar(data):
        message = f"the init container {data['name']} does not end, so training never starts"
        hint = "add restartPolicy: Always to make it a sidecar"
        # An image of a sidecar may also run once.
        certain = is_sidecar({**data, "name": "", "image": ""})
        yield container.error((), message, hint, "never-ends").as_warning(unless=certain)


OPENS = r"(?:\bnc\b(?: -\S+(?: \d+)?(?= )){0,20}|/dev/tcp/) ?([a-z][\w.-]*)[ /]\d+"
"""A test whether a port of a host is open."""


@of_containers.when("runs_once")
def waits_for_itself(container: Container) -> Iterator[Located]:
    """Report an init container that waits for a port of its own role.

    The port opens only after the init containers have ended.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        initContainers:
        - name: a
          image: busybox
          command: [sh, -c, until nc -z -w 2 example-worker-0.example 29500; do sleep 1; done]
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        initContainers:
        - name: a
          image: busybox
          command: [sh, -c, until nc -z example-db 5432; do sleep 1; done]
        - name: b
          image: busybox
          command: [sh, -c, until nslookup example-worker-0.example; do sleep 1; done]
        roles: {worker: {replicas: 2}}
    """
    waits = None
    for part in re.split(r"[;\n]", " ".join(map(str, container.data.get("command") or ()))):
        _, *loop = re.split(r"\b(?:until|while)\b", part, maxsplit=1)
        waits = waits or (loop and re.search(OPENS, loop[0])) or None
    target = container.job.of_host(waits[1].partition(".")[0]) if waits else None
    if waits and target and role_path(target.item) == role_path(container.pods.item):
        name, host = container.data["name"], waits[1]
        message = (
            f"the init container {name} waits for a port of {host}, which opens only after the"
            " init containers have ended, so training never starts"
        )
        hint = (
            "remove it: mlgen adds the waits that the framework needs; or wait in the training"
            " container"
        )
        yield container.error((), message, hint, "wait-cycle")


@of_containers
def unknown_port_name(container: Container) -> Iterator[Located]:
    """Report a port that a probe or hook refers to by name, but that the container does not have.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        template:
          spec: {containers: [{name: main, readinessProbe: {httpGet: {port: health}}}]}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        template:
          spec:
            containers:
            - name: main
              ports: [{name: health, containerPort: 8000}]
              readinessProbe: {httpGet: {port: health}}
              livenessProbe: {tcpSocket: {port: 8000}}
        roles: {worker: {replicas: 2}}
    """
    for handler in HANDLERS:
        for kind in ("httpGet", "tcpSocket"):
            at = (*handler, kind, "port")
            name = value_at(container.data, at)
            if not isinstance(name, str) or natural(name):
                continue
            every = container.data.get("ports") or ()
            ports = [str(port["name"]) for port in every if port.get("name")]
            if name not in ports:
                message = f"the container {container.data['name']} has no port {name}"
                hint = did_you_mean(name, ports) or "write a name that exists"
                # Pods train although they are not ready, and end although the hook fails.
                sure = handler[-1] not in ("readinessProbe", "preStop")
                yield container.error(at, message, hint, "reference").as_warning(unless=sure)


SHELL_REFERENCE = r"(?<![\\$])\$(?:\{(\w+)\}|([A-Za-z_]\w*))"
"""A variable as a shell expands it: `$PATH` or `${PATH}`."""

SEARCH_PATHS = (
    r"PATH|(LD_)?LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|C(PLUS_INCLUDE_)?PATH|PKG_CONFIG_PATH|MANPATH"
    r"|NODE_PATH"
)
"""Variables of images with a list of directories, which the user's value replaces."""

SHELL_VARIABLES = ("HOME", "USER", "PWD", "PATH", "HOSTNAME", "TMPDIR")

OF_SHELLS = r".*(COMMAND|CMD|SCRIPT|TEMPLATE|PROMPT|FORMAT)|PS\d|(BASH_)?ENV"
"""Variables whose value a shell runs, or another program expands."""

PROSE = r"[\[{]|[^-]\S*\s"
"""The start of a sentence or JSON, which may contain any `$NAME`."""


@of_containers
def unexpanded_variable(container: Container) -> Iterator[Located]:
    """Report a variable whose value contains another one in the syntax of a shell.

    Kubernetes replaces only `$(NAME)` of variables before it, not those of the image:
    https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        env: {PYTHONPATH: "/src:$PYTHONPATH"}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        env: {PATH: "/opt/bin:${PATH}"}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        env: {ROOT: /d, DATA: $ROOT/train, HF_HOME: $HOME/.cache}
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        env:
          ROOT: /d
          DATA: $(ROOT)/train
          PATTERN: ^a$
          FORMAT: ${now:%Y}
          PROMPT: pay $USD or ${name}
          NOTE: written to $HOME/out; see the log
          RAY_RUNTIME_ENV: '{"env_vars": {"PATH": "/a:${PATH}", "B": "$ROOT"}}'
          GIT_SSH_COMMAND: ssh -i $HOME/.ssh/id
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [sh, -c, eval "torchrun $FLAGS train.py"]
        env: {FLAGS: --data $HOME}
        roles: {worker: {replicas: 2}}
    """
    env = container.data.get("env") or []
    first = {item["name"]: number for number, item in reversed([*enumerate(env)])}
    for number, item in enumerate(env):
        value, name = str(item.get("value") or ""), item["name"]
        match = re.search(SHELL_REFERENCE, value)
        if not match or re.search(r"\b(eval|envsubst)\b", container.lines.text):
            continue
        used, at = match[1] or match[2], ("env", number, "value")
        before = first.get(used, number) < number
        message = f"Kubernetes does not replace {match[0]} in env, so"
        if re.fullmatch(SEARCH_PATHS, name) and not before:
            hint = (
                "write the complete value, or remove it from env and set it in a script:"
                f" sh -c 'export {name}=\"…\"; exec …'"
            )
            lost = "the directories of the image are lost"
            yield container.warning(at, f"{message} {lost}", hint)
        elif re.fullmatch(OF_SHELLS, name) or re.match(PROSE, value):
            continue
        elif used in first or used in SHELL_VARIABLES:
            hint = f"write $({used})" if before else "write the complete value"
            kept = f"{name} has this text as its value"
            yield container.warning(at, f"{message} {kept}", hint, "no-effect")


@of_objects
def same_item(job: Objects) -> Iterator[Located]:
    """Report two items of a list in a template that would be merged into one.

    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        template: {spec: {containers: [{name: a, image: busybox}, {name: a, image: busybox}]}}
        roles: {worker: {replicas: 2}}
    wrong:
        framework: pytorch
        command: [torchrun, train.py]
        template:
          spec:
            volumes: [{name: a, emptyDir: {}}, {name: a, emptyDir: {}}]
            containers: [{name: main, volumeMounts: [{name: a, mountPath: /a}]}]
        roles: {worker: {replicas: 2}}
    right:
        framework: pytorch
        command: [torchrun, train.py]
        template: {spec: {containers: [{name: main, imagePullPolicy: Always}]}}
        roles: {worker: {replicas: 2}}
    """
    for path, _, template in holders(job.job_file):
        for found in _same_items((*path, "template"), template):
            yield Located(job.items[0], (), found)


UNIQUE = ("containers", "initContainers", "volumes", "volumeMounts")
"""Lists in which two items with the same key are a mistake, before they are merged."""


def _same_items(path: ValuePath, value: Any) -> Iterator[Problem]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _same_items((*path, name), inner)
    elif isinstance(value, list):
        field, seen = str(path[-1]), set()
        key = KEYS.get(field, "")
        for number, item in enumerate(value):
            found = item.get(key) if isinstance(item, dict) and field in UNIQUE else None
            if isinstance(found, str) and found in seen and "$patch" not in item:
                message = f"two {field} have the {key} {found}"
                hint = "rename one of the two, or write one item"
                yield error((*path[1:], number, key), message, hint)
            seen.add(found)
            yield from _same_items((*path, number), item)
