"""A role → its training container, and the helpers that run before it."""

from typing import Any

from mlgen.jobfile.model import TrainingJob
from mlgen.objects import storage
from mlgen.objects.env import index_variable, main_env
from mlgen.objects.ports import container_ports
from mlgen.objects.security import RESTRICTED
from mlgen.objects.volumes import volume_mount
from mlgen.topology import INDEX, ConfigFiles, Helper, Mount, Role, Wait

WAIT_SCRIPT = "wait-for-peers.sh"
SCRIPTS = "/mlgen/scripts"
"""The folder in which helpers mount their scripts."""

SCRIPTS_VOLUME = "mlgen-scripts"

HELPER_RESOURCES = {
    "requests": {"cpu": "50m", "memory": "64Mi"},
    "limits": {"cpu": "500m", "memory": "128Mi"},
}
"""Enough to copy kubectl and to run a shell script. Kubeflow's 10Mi was too little."""

GIT_RESOURCES = {
    "requests": {"cpu": "50m", "memory": "128Mi"},
    "limits": {"cpu": "1", "memory": "1Gi"},
}
"""Git unpacks a large repository in memory."""

RESOURCES = (HELPER_RESOURCES, GIT_RESOURCES)


def training_container(role: Role) -> dict[str, Any]:
    """Return the training container, without the fields that are empty.

    The framework's command and args apply only if the user sets neither.
    """
    spec = role.spec
    use_default = not spec.command and not spec.args
    container: dict[str, Any] = {
        "name": spec.main_container,
        "image": spec.image,
        "imagePullPolicy": spec.image_pull_policy,
        "command": list(role.command if use_default else spec.command),
        "args": list(role.args if use_default else spec.args),
        "workingDir": spec.working_dir,
        "env": main_env(role),
        "ports": container_ports(role),
        "resources": spec.resources,
        "volumeMounts": [volume_mount(mount) for mount in role.mounts],
    }
    return {name: value for name, value in container.items() if value not in (None, [], {})}


def helpers_of(job: TrainingJob, role: Role) -> list[Helper]:
    """Return a role's helpers in running order; the one that waits for peers comes last."""
    helpers = [*role.helpers, *storage.sync_helpers(job, role)]
    return [*helpers, _wait_helper(job, role)] if role.waits else helpers


def _wait_helper(job: TrainingJob, role: Role) -> Helper:
    """Return the helper that waits for peers; without a time limit unless the user sets one."""
    timeout, own = job.wait.timeout_seconds, f"{job.name}-{role.name}-"
    listens = any(wait.port and wait.hosts.before == own for wait in role.waits)
    return Helper(
        name="wait-for-peers",
        script=WAIT_SCRIPT,
        image="wait",
        env={
            **({"MLGEN_SELF": f"{own}{INDEX}"} if listens else {}),
            "MLGEN_PEERS": " ".join(_peer(wait) for wait in role.waits),
            **({} if timeout is None else {"MLGEN_TIMEOUT": str(timeout)}),
        },
        last=True,
    )


def _peer(wait: Wait) -> str:
    """Return the hosts of a wait as the script reads them: `mnist-ps-[0-1].mnist:2222`."""
    return str(wait.hosts) if wait.port is None else f"{wait.hosts}:{wait.port}"


def scripts(job: TrainingJob, role: Role) -> set[str]:
    """Return the names of the files in the job's ConfigMap that a role's pods mount."""
    names = {helper.script for helper in helpers_of(job, role)}
    for mount in role.mounts:
        if isinstance(mount.volume, ConfigFiles):
            names |= set(mount.volume.files)
    return names


SCRIPT_MOUNT = Mount(ConfigFiles(SCRIPTS_VOLUME), SCRIPTS)
"""The mount of the volume with the scripts of helpers."""


def helper_container(job: TrainingJob, role: Role, helper: Helper) -> dict[str, Any]:
    """Return the init container that runs a helper's script."""
    images = {
        "wait": job.helpers.wait_image,
        "kubectl": job.helpers.kubectl_image,
        "git": job.helpers.git_image,
        "main": role.spec.image,
    }
    uses_index = any(INDEX in value for value in helper.env.values())
    mounts = [*helper.mounts, SCRIPT_MOUNT]
    return {
        "name": helper.name,
        "image": images[helper.image],
        "command": ["sh", f"{SCRIPTS}/{helper.script}"],
        "env": [
            *([index_variable(role)] if uses_index else []),
            *({"name": name, "value": value} for name, value in helper.env.items()),
        ],
        "resources": GIT_RESOURCES if helper.image == "git" else HELPER_RESOURCES,
        "securityContext": _training_user_context(role) if helper.image == "main" else RESTRICTED,
        "volumeMounts": [volume_mount(mount) for mount in mounts],
    }


def _training_user_context(role: Role) -> dict[str, Any]:
    """Return the helpers' security context, but with the user of the training container.

    The training container must own the files that the helper writes.
    """
    context = {
        name: value
        for name, value in RESTRICTED.items()
        if name not in ("runAsNonRoot", "runAsUser", "runAsGroup")
    }
    for container in role.spec.container_patches:
        user_context = container.get("securityContext") or {}
        context |= {name: value for name, value in user_context.items() if name.startswith("runAs")}
    return context
