"""A role → its pod template: the training container, and the helpers that run before it.

A probe or a Service may refer to a port by the user's name. So if the user and mlgen declare the
same port number, the user's port is kept.
"""

import re
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from mlgen.jobfile.hints import FIELDS, OF_PODS, SELECTED
from mlgen.jobfile.model import TrainingJob, containers_of, is_below
from mlgen.kubernetes.objects import INT32_MAX
from mlgen.kubernetes.values import merged
from mlgen.launch.line import is_sidecar, lines_of
from mlgen.objects import network, placement, security, storage
from mlgen.objects.labels import JOB, REPLICA_INDEX, ROLE, index_label, pod_labels, workload_name
from mlgen.objects.skeleton import filled, template_error
from mlgen.objects.storage import pod_volumes, volume_mount
from mlgen.topology import INDEX, INDEX_NAME, ConfigFiles, Helper, Mount, PodField, Role, Topology

SCRIPTS = "/mlgen/scripts"
"""The folder in which helpers mount their scripts."""

HELPER_RESOURCES = {
    "requests": {"cpu": "50m", "memory": "64Mi"},
    "limits": {"cpu": "500m", "memory": "128Mi"},
}
"""Enough to copy kubectl and to run a shell script. Kubeflow's 10Mi is too little."""

SIDECAR_RESOURCES = {
    "requests": {"cpu": "10m", "memory": "16Mi"},
    "limits": {"cpu": "200m", "memory": "64Mi"},
}
"""Enough for a shell that waits. Every pod has these requests as long as it runs."""

GIT_RESOURCES = {
    "requests": {"cpu": "50m", "memory": "128Mi"},
    "limits": {"cpu": "1", "memory": "1Gi"},
}
"""Git unpacks a large repository in memory."""

RESOURCES = (HELPER_RESOURCES, SIDECAR_RESOURCES, GIT_RESOURCES)


def pod_template(topology: Topology, role: Role) -> dict[str, Any]:
    """Return the pod template of a role.

    Later patches override earlier ones: scheduling, network, security and storage of the job file,
    then the user's templates.

    Raises:
        MlgenError: a template removes the training container, or sets an invalid memory limit.
    """
    job, container = topology.job, role.spec.main_container
    helpers = helpers_of(job, role)
    pod = _plain_pod(job, role, helpers)
    patches = [
        placement.patch(topology, role),
        network.patch(topology, role),
        security.patch(job, container),
        storage.patch(job, container, role.spec.volumes, lines_of(role.spec).lines),
    ]
    if role.spec.security_context:
        context = {"name": container, "securityContext": dict(role.spec.security_context)}
        patches.append({"spec": {"containers": [context]}})
    for patch in (*patches, *(with_host_ports(role, item) for item in role.spec.templates)):
        pod = merged(pod, patch)
    training = _training_container_of(role, pod)
    memory = storage.shared_memory(role, training)
    if memory:
        mounting = {"name": container, "volumeMounts": [volume_mount(memory)]}
        volumes = pod_volumes(job, [memory])
        pod = merged(pod, {"spec": {"containers": [mounting], "volumes": volumes}})
    pod = _with_progress_file(topology, role, training, pod)
    spec = _waiting_last(helpers, _with_init_containers(role, helpers, pod))
    spec = _with_preflight(role, spec)
    spec = network.with_dns_policy(with_native_sidecars(role, spec))
    spec = with_own_fields(job, role, pod | {"spec": spec})
    spec = security.without_token(with_index_variable(role, spec), role.spec.file_texts)
    if placement.is_queued(topology):
        own = [security.helper_resources(job, each) for each in RESOURCES]
        spec = placement.with_modest_helpers(spec, own, security.helper_resource_names(job))
    return pod | {"spec": _long_fields_last(spec)}


def service_account(job: TrainingJob, role: Role) -> str | None:
    """Return the service account of a role's pods; None: the namespace's default.

    The user's service account takes precedence. Roles that use the Kubernetes API have their own.
    """
    default = workload_name(job, role) if role.rights else None
    return role.spec.service_account_name or default


def _plain_pod(job: TrainingJob, role: Role, helpers: list[Helper]) -> dict[str, Any]:
    """Return the pod template before patches are merged into it."""
    mounts = [*role.mounts, *(mount for helper in helpers for mount in helper.mounts)]
    if helpers:
        mounts.append(SCRIPT_MOUNT)
    return filled(
        "pod",
        labels=pod_labels(job, role),
        hostname=None if role.index is None or job.jobset else workload_name(job, role),
        subdomain=job.subdomain,
        restart_policy=_restart_policy(role),
        service_account=service_account(job, role),
        pull_secrets=list(role.spec.image_pull_secrets) or None,
        helpers=[helper_container(job, role, helper) for helper in helpers] or None,
        main=training_container(role) | _own_restart(role),
        volumes=pod_volumes(job, mounts) or None,
    )


def _with_progress_file(
    topology: Topology, role: Role, training: dict[str, Any], pod: dict[str, Any]
) -> dict[str, Any]:
    """Return a pod whose sidecar mounts the volume of `progress.file`, read-only."""
    progress = topology.job.run_policy.progress
    if progress is None or progress.file is None:
        return pod
    sidecar = next((helper.name for helper in role.helpers if helper.sidecar), "")
    mounts = training.get("volumeMounts") or []
    holding = [mount for mount in mounts if is_below(progress.file, mount["mountPath"])]
    if not sidecar or not holding:
        return pod
    mount = max(holding, key=lambda each: len(each["mountPath"])) | {"readOnly": True}
    patch = {"initContainers": [{"name": sidecar, "volumeMounts": [mount]}]}
    with_mount: dict[str, Any] = merged(pod, {"spec": patch})
    return with_mount


def _restart_policy(role: Role) -> str | None:
    """Return the pods' restartPolicy; None: the default, Always.

    A Job's podFailurePolicy implements ExitCode, and requires Never. A replica of a gang restarts
    only with the others.
    """
    if role.serves:
        return None
    restarts = role.restart in ("Always", "OnFailure") and not role.restarts_together
    return "OnFailure" if restarts else "Never"


def _training_container_of(role: Role, pod: dict[str, Any]) -> dict[str, Any]:
    """Return the training container.

    Raises:
        MlgenError: a template of the user removed it.
    """
    name = role.spec.main_container
    for container in containers_of(pod):
        if container.get("name") == name:
            return container
    message = f'the template removes the training container "{name}"'
    hint = "keep it, or set mainContainer to the name of another container"
    raise template_error(role, message, "combination", hint)


SHARED_FIELDS = (
    "image",
    "imagePullPolicy",
    "workingDir",
    "env",
    "envFrom",
    "resources",
    "securityContext",
    "volumeMounts",
)
"""The fields of the training container that `initContainers` of the job file have by default."""


PREFLIGHT = "preflight"
"""The name of the init container that checks a node before each start."""


def _with_init_containers(role: Role, helpers: list[Helper], pod: dict[str, Any]) -> dict[str, Any]:
    """Return the pod spec with the role's init containers, after those of templates.

    All of them have the variables of their rank, which helpers do not need.
    """
    spec: dict[str, Any] = pod["spec"]
    templates = [template.get("spec") or {} for template in role.spec.templates]
    named = {each.get("name") for own in templates for each in own.get("initContainers") or ()}
    named -= {helper.name for helper in helpers}
    if not role.spec.init_containers and not named:
        return spec
    main = _training_container_of(role, pod)
    containers = [
        _with_variables(_rank_variables(role, main), each) if each["name"] in named else each
        for each in spec.get("initContainers") or ()
    ]
    own = [_like(main, each["name"], each) for each in role.spec.init_containers]
    return spec | {"initContainers": [*containers, *own]}


def _like(main: Mapping[str, Any], name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return an init container with the fields of the training container, and its own."""
    shared = {name: main[name] for name in SHARED_FIELDS if name in main}
    return {"name": name, **merged(shared, fields)}


def _with_preflight(role: Role, spec: dict[str, Any]) -> dict[str, Any]:
    """Return the pod spec with the role's preflight as the last init container.

    It runs after the wait for peers, so that the preflights of all replicas can communicate.
    """
    if role.spec.preflight is None:
        return spec
    preflight = _like(_training_container_of(role, {"spec": spec}), PREFLIGHT, role.spec.preflight)
    return spec | {"initContainers": [*(spec.get("initContainers") or ()), preflight]}


def _rank_variables(role: Role, main: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the framework's variables of the training container, and those that they refer to."""
    names, found = {INDEX_NAME, *role.env}, []
    for variable in reversed(main.get("env") or ()):
        if variable["name"] in names:
            names.update(REFERENCE.findall(variable.get("value") or ""))
            found.append(variable)
    return found[::-1]


def _with_variables(
    variables: Iterable[dict[str, Any]], container: dict[str, Any]
) -> dict[str, Any]:
    """Return a container with the variables that it does not define itself, unless a sidecar."""
    own = container.get("env") or []
    names = {variable["name"] for variable in own}
    more = [variable for variable in variables if variable["name"] not in names]
    is_sidecar = container.get("restartPolicy") == "Always"
    return container if is_sidecar else container | {"env": [*more, *own]}


def _waiting_last(helpers: list[Helper], spec: dict[str, Any]) -> dict[str, Any]:
    """Return a pod spec in which the helpers that wait for other pods run last.

    The init containers of the user's templates run before them, so that all replicas download their
    data in parallel.
    """
    waiting = [helper.name for helper in helpers if helper.last]
    if not waiting or not spec.get("initContainers"):
        return spec
    first, last = list[Any](), list[Any]()
    for container in spec["initContainers"]:
        (last if container.get("name") in waiting else first).append(container)
    return spec | {"initContainers": [*first, *last]}


def _long_fields_last(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a pod spec with its long lists at the end, after the short fields."""
    ordered = dict(spec)
    for name in ("initContainers", "containers", "volumes"):
        if name in ordered:
            ordered[name] = ordered.pop(name)
    return ordered


def with_native_sidecars(role: Role, spec: dict[str, Any]) -> dict[str, Any]:
    """Return a pod spec whose known sidecars do not keep a Job from completing.

    They become the last init containers, so they still start after all other init containers.
    """
    main, containers = role.spec.main_container, spec.get("containers") or []
    moved = [c for c in containers if c.get("name") != main and is_sidecar(c)]
    if role.serves or len(containers) == 1 or not moved:
        return spec
    sidecars = [container | {"restartPolicy": "Always"} for container in moved]
    return spec | {
        "initContainers": [*(spec.get("initContainers") or []), *sidecars],
        "containers": [container for container in containers if container not in moved],
    }


def training_container(role: Role) -> dict[str, Any]:
    """Return the training container, without empty fields.

    The framework's command and args apply only if the user sets neither.
    """
    spec = role.spec
    use_default = not spec.command and not spec.args
    container: dict[str, Any] = {
        "name": spec.main_container,
        "image": spec.image,
        "imagePullPolicy": spec.image_pull_policy,
        "command": list(role.command if use_default else (*role.wrapper, *spec.command)),
        "args": list(role.args if use_default else spec.args),
        "workingDir": spec.working_dir,
        "env": main_env(role),
        "envFrom": list(spec.env_from),
        "ports": container_ports(role),
        "resources": spec.resources,
        "volumeMounts": [volume_mount(mount) for mount in role.mounts],
    }
    return {name: value for name, value in container.items() if value not in (None, [], {})}


def helpers_of(job: TrainingJob, role: Role) -> list[Helper]:
    """Return a role's helpers in running order; the one that waits for peers comes last.

    In place, the sidecar waits for names of peers. The kubelet takes a second for each init
    container, and their names resolve before the user's init containers have run.
    """
    helpers = [*role.helpers, *storage.sync_helpers(job, role)]
    if not role.waits:
        return helpers
    wait = _wait_helper(job, role)
    if not role.in_place or job.wait.timeout_seconds or any(each.port for each in role.waits):
        return [*helpers, wait]
    sidecar, *others = helpers
    return [sidecar._replace(env={**sidecar.env, **wait.env}, runs=(wait.script,)), *others]


def _wait_helper(job: TrainingJob, role: Role) -> Helper:
    """Return the helper that waits for peers, with a time limit if the user sets one."""
    timeout = job.wait.timeout_seconds
    own = next((each.hosts for each in role.waits if each.port and each.role == role.name), None)
    # The script's format: `mnist-ps-[0-1].mnist:2222`.
    peers = (f"{w.hosts}:{w.port}" if w.port is not None else str(w.hosts) for w in role.waits)
    env = {}
    if own:
        env["MLGEN_SELF"] = f"{own.before}{INDEX}{own.after.partition('.')[0]}"
    env["MLGEN_PEERS"] = " ".join(peers)
    if timeout is not None:
        env["MLGEN_TIMEOUT"] = str(timeout)
    return Helper("wait-for-peers", "wait-for-peers.sh", "wait", env, last=True)


def scripts(job: TrainingJob, role: Role) -> set[str]:
    """Return the names of the files in the job's ConfigMap that a role's pods mount."""
    volumes = [mount.volume for mount in role.mounts]
    files = (volume.files for volume in volumes if isinstance(volume, ConfigFiles))
    helpers = helpers_of(job, role)
    return {name for each in helpers for name in (each.script, *each.runs)}.union(*files)


SCRIPT_MOUNT = Mount(ConfigFiles("mlgen-scripts"), SCRIPTS)
"""The mount of the volume with the scripts of helpers."""


def helper_container(job: TrainingJob, role: Role, helper: Helper) -> dict[str, Any]:
    """Return the init container that runs a helper's script."""
    images = {
        "wait": job.helpers.wait_image,
        "kubectl": job.helpers.kubectl_image,
        "git": job.helpers.git_image,
        "main": role.spec.image,
    }
    return {
        "name": helper.name,
        "image": images[helper.image],
        **(_sidecar_fields(role) if helper.sidecar else {}),
        "command": ["sh", f"{SCRIPTS}/{helper.script}"],
        "env": [{"name": name, "value": value} for name, value in helper.env.items()],
        "resources": security.helper_resources(job, _resources(helper)),
        "securityContext": _training_user_context(role)
        if helper.image == "main"
        else security.helper_context(job),
        "volumeMounts": [volume_mount(mount) for mount in (*helper.mounts, SCRIPT_MOUNT)],
    }


IN_PLACE = 75
"""The exit code with which the sidecar restarts all containers of its pod."""


def _resources(helper: Helper) -> dict[str, Any]:
    if helper.sidecar:
        return SIDECAR_RESOURCES
    return GIT_RESOURCES if helper.image == "git" else HELPER_RESOURCES


def _restart_rule(operator: str, codes: list[int]) -> dict[str, Any]:
    """Return the field by which a container that exits restarts all containers of its pod.

    https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-all-containers
    """
    exit_codes: dict[str, Any] = {"operator": operator, "values": codes}
    return {"restartPolicyRules": [{"action": "RestartAllContainers", "exitCodes": exit_codes}]}


def _sidecar_fields(role: Role) -> dict[str, Any]:
    """Return the fields of a sidecar. In place, the other containers start when it has started."""
    always: dict[str, Any] = {"restartPolicy": "Always"}
    if not role.in_place:
        return always
    # The probe itself waits, which is up to a second faster than a probe that is repeated.
    command = ["sh", "-c", "until test -s /dev/termination-log; do sleep 0.1; done"]
    probe: dict[str, Any] = {"exec": {"command": command}, "timeoutSeconds": 600}
    probe |= {"periodSeconds": 1, "failureThreshold": INT32_MAX}
    return always | _restart_rule("In", [IN_PLACE]) | {"startupProbe": probe}


def _own_restart(role: Role) -> dict[str, Any]:
    """Return the fields by which the exit of a training container restarts its pod in place."""
    if not role.in_place or role.alone:
        return {}
    if role.serves:
        return {"restartPolicy": "Always"} | _restart_rule("NotIn", [])
    return {"restartPolicy": "Never"} | _restart_rule("NotIn", [0])


def _training_user_context(role: Role) -> dict[str, Any]:
    """Return the helpers' security context, with the training container's user.

    The training container must own the files that the helper writes.
    """
    context = security.CONFINED | {"readOnlyRootFilesystem": True} | security.SECCOMP
    for container in role.spec.container_patches:
        user_context = container.get("securityContext") or {}
        context |= {name: value for name, value in user_context.items() if name.startswith("runAs")}
    return context


REFERENCE = re.compile(r"\$\(([^()]+)\)")
"""https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/"""


def main_env(role: Role) -> list[dict[str, Any]]:
    """Return the variables of the training container; user values override framework values.

    The index comes first, because the others may refer to it. A JobSet that mlgen has rendered
    already sets it.
    """
    user_env = role.spec.env
    env = [(name, value) for name, value in role.env.items() if name not in user_env]
    variables = [_variable(name, value) for name, value in [*env, *user_env.items()]]
    index = [] if INDEX_NAME in user_env else [index_variable(role)]
    return [*index, *_in_dependency_order(variables)]


def _variable(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, PodField):
        value = {"valueFrom": {"fieldRef": {"fieldPath": value.path}}}
    return {"name": name, **(value if isinstance(value, dict) else {"value": value})}


def index_variable(role: Role) -> dict[str, Any]:
    """Return the variable with a replica's index: a literal, or from the pod's label."""
    if role.index is not None:
        return {"name": INDEX_NAME, "value": str(role.index)}
    field = f"metadata.labels['{index_label(role)}']"
    return {"name": INDEX_NAME, "valueFrom": {"fieldRef": {"fieldPath": field}}}


def with_index_variable(role: Role, spec: dict[str, Any]) -> dict[str, Any]:
    """Return a pod spec in which every container that refers to the index defines it.

    The training container always defines it.
    """
    defined = {}
    for key in ("initContainers", "containers"):
        if spec.get(key):
            defined[key] = [_define_index(role, container) for container in spec[key]]
    return spec | defined


def _define_index(role: Role, container: dict[str, Any]) -> dict[str, Any]:
    """Return a container that defines the index variable if it refers to it."""
    env = container.get("env") or []
    names = [variable["name"] for variable in env]
    texts = [*(container.get("command") or []), *(container.get("args") or [])]
    texts += [variable.get("value") or "" for variable in env]
    if INDEX_NAME in names or INDEX not in "\n".join(texts):
        return container
    return container | {"env": [index_variable(role), *env]}


def _in_dependency_order(env: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return variables sorted so that each one follows the variables that it refers to.

    Kubernetes expands `$(NAME)` only if NAME is defined earlier in the list. The job file has a
    mapping instead, and tools such as kustomize sort its keys. Variables that are in order, or
    refer to each other in a cycle, are returned unchanged.
    """
    by_name = {variable["name"]: variable for variable in env}
    references: dict[str, list[str]] = {}
    in_order = True
    for name, variable in by_name.items():
        found = REFERENCE.findall(variable.get("value") or "")
        others = [other for other in found if other in by_name and other != name]
        in_order = in_order and references.keys() >= {*others}
        references[name] = others
    if in_order:
        return env
    try:
        return [by_name[name] for name in TopologicalSorter(references).static_order()]
    except CycleError:
        return env


def container_ports(role: Role) -> list[dict[str, Any]]:
    """Return the ports that peers use. A hostPort keeps two pods with the same port off one node.

    Port names must be unique in a container, so a port whose name the user uses gets no name.
    """
    patches = role.spec.container_patches
    user_names = {port.get("name") for patch in patches for port in patch.get("ports") or []}
    ports = []
    for name, port in role.ports.items():
        number = role.host_ports.get(name)
        fields: dict[str, Any] = {} if name in user_names else {"name": name}
        fields["containerPort"] = number or port
        ports.append(fields | ({"hostPort": number} if number else {}))
    return ports


def with_host_ports(role: Role, template: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a user's template with the replica's node ports in place of the ports for peers.

    With host networking, each replica listens on a different port of its node.
    """
    constant, containers = role.ports, containers_of(template)
    if not role.host_ports or not containers:
        return template
    on_node = {constant[name]: number for name, number in role.host_ports.items()}

    def moved(port: dict[str, Any]) -> dict[str, Any]:
        number = on_node.get(port.get("containerPort", 0))
        return port | {"containerPort": number, "hostPort": number} if number else port

    changed = [
        container | {"ports": list(map(moved, container["ports"]))}
        if container.get("name") == role.spec.main_container and container.get("ports")
        else container
        for container in containers
    ]
    return {**template, "spec": {**template["spec"], "containers": changed}}


QUEUE = "default"
"""Volcano's queue for jobs that name none: pkg/webhooks/admission/jobs/mutate/mutate_job.go."""


def with_own_fields(job: TrainingJob, role: Role, template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of a pod template that reads mlgen's labels instead of an operator's.

    Args:
        job: the job.
        role: the role of the pods.
        template: with the labels and annotations that the pods have.
    """
    spec: dict[str, Any] = template["spec"]

    def own(node: Any) -> Any:
        if isinstance(node, list):
            return [own(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "fieldRef" in (node.get("valueFrom") or node):
            return _with_own_path(job, role, template["metadata"], node)
        return {name: own(value) for name, value in node.items()}

    fields = [key for _, key in OF_PODS.findall(repr(spec)) if key in SELECTED]
    return own(spec) if fields else spec


def _with_own_path(
    job: TrainingJob, role: Role, metadata: Mapping[str, Any], item: dict[str, Any]
) -> dict[str, Any]:
    """Return a variable, or a file of a volume, with the equal of its label or annotation."""
    source = item.get("valueFrom") or item
    path = (source.get("fieldRef") or {}).get("fieldPath")
    match = OF_PODS.fullmatch(path) if isinstance(path, str) else None
    kind, key = match.groups() if match else ("", "")
    if key not in SELECTED or key in (metadata.get(kind) or {}):
        return item
    if FIELDS.get(key) == "queue" and "valueFrom" in item:
        return {"name": item["name"], "value": job.scheduling.queue or QUEUE}
    own = _own_path(role, metadata, key)
    if own is None:
        return item
    field = {"fieldRef": source["fieldRef"] | {"fieldPath": own}}
    return item | ({"valueFrom": field} if "valueFrom" in item else field)


def _own_path(role: Role, metadata: Mapping[str, Any], key: str) -> str | None:
    """Return the path of the field with the value of an operator's field; None if there is none."""
    for kind in ("labels", "annotations"):
        if key in (metadata.get(kind) or {}):
            return f"metadata.{kind}['{key}']"
    index = index_label(role) if role.index is None else REPLICA_INDEX
    labels = {"job": JOB, "role": ROLE, "index": index}
    meaning = FIELDS.get(key, "")
    if meaning == "namespace":
        return "metadata.namespace"
    return f"metadata.labels['{labels[meaning]}']" if meaning in labels else None
