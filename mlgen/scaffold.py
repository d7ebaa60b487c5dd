"""What a user needs before the first render: a commented job file, and a Secret with an SSH key."""

import json
import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from shlex import quote
from textwrap import indent
from typing import Any, NamedTuple

from mlgen import frameworks, pipeline
from mlgen.documents.files import Text
from mlgen.jobfile.model import API_VERSION, KIND
from mlgen.jobfile.schema import with_hints
from mlgen.kubernetes.validation.rows import is_subdomain
from mlgen.kubernetes.versions import KubeVersion
from mlgen.output.yaml import yaml_text
from mlgen.problems import MlgenError
from mlgen.resources import folder
from mlgen.result import Options
from mlgen.shell import flow

GPUS = "nvidia.com/gpu"

SCHEMA = ".mlgen/job.schema.json"
"""The path of the schema for editors, relative to the folder of the job file.

It is in a subfolder, because `mlgen render FOLDER` reads JSON files in the folder itself.
"""

MODELINE = f"# yaml-language-server: $schema={SCHEMA}"
"""The comment with the schema for editors: https://github.com/redhat-developer/yaml-language-server."""

FIRST = "# First: "
"""The start of a line with a command that creates a prerequisite."""

NEXT = "Optional fields. To use one, remove the # before its lines."


class Choices(NamedTuple):
    """The user's choices for a first job.

    Attributes:
        framework: the framework's name.
        image: the image of all replicas.
        name: the job's name.
        replicas: the number of replicas that compute.
        gpus: the number of GPUs in each of these replicas.
        gpu_resource: the device plugin's resource name for GPUs.
        namespace: the job's namespace; None: kubectl sets it.
        schema: True to add the comment with the schema at `SCHEMA`.
    """

    framework: str
    image: str
    name: str
    replicas: int = 1
    gpus: int = 0
    gpu_resource: str = GPUS
    namespace: str | None = None
    schema: bool = False


def example(framework: str) -> str:
    """Return a short job file of a framework as YAML: two replicas with eight GPUs each."""
    choices = Choices(framework, "example/train:1", "train", replicas=2, gpus=8)
    return _yaml(_job(choices)) + "\n"


def job_file(choices: Choices, file: str) -> str:
    """Return a job file as YAML, with comments on its fields and on optional fields.

    Args:
        choices: the user's choices.
        file: the file name to use in comments.

    Raises:
        MlgenError: the image or a name is invalid.
    """
    framework, job = frameworks.get(choices.framework), _job(choices)
    spec = job.pop("spec")
    resources, roles = spec.pop("resources", {}), spec.pop("roles")
    parts = [
        f"# {framework.title}. {framework.summary}",
        f"# mlgen explain {choices.framework}: its roles, options and variables",
        f"# mlgen show {quote(file)}: its pods, resources and restarts",
        f"{_yaml(job)}\nspec:",
        f"{indent(_yaml(spec), '  ')}\n",
        "  # Per replica. Only replicas that compute get GPUs.",
        f"{indent(_resources(resources), '  ')}\n",
        f"{indent(_yaml({'roles': roles}), '  ')}\n",
        "\n\n".join([f"  # {NEXT}", *_next(choices)]),
    ]
    text = "\n".join([MODELINE, *parts] if choices.schema else parts) + "\n"
    try:
        (rendered,) = pipeline.render([Text(file, text)], Options()).jobs
    except MlgenError as error:  # the file does not exist yet, so problems have no location
        raise MlgenError(replace(problem, place=None) for problem in error.problems) from None
    commands = [need.command for need in rendered.prerequisites if need.command]
    shown = f"# mlgen show {quote(file)}"
    return text.replace(shown, "\n".join([*(f"{FIRST}{each}" for each in commands), shown]), 1)


def editor_schema(version: KubeVersion) -> str:
    """Return the JSON Schema of the job file for editors as text, with a snippet per framework.

    Args:
        version: the Kubernetes version whose pod template schema it contains.
    """
    names = frameworks.names()
    summaries = {name: frameworks.get(name).summary for name in names}
    schema = frameworks.published_schema(names, version)
    return json.dumps(with_hints(schema, summaries, dict(map(_snippet, names))), indent=2) + "\n"


def _snippet(framework: str) -> tuple[str, str]:
    """Return a framework's name, and its example with placeholders for the user's values."""
    choices = Choices(framework, "${2:example/train:1}", "${1:train}", replicas=2, gpus=8)
    return framework, _yaml(_job(choices)).replace('"${', "${").replace('}"', "}")


def job_name(image: str) -> str:
    """Return a job name from an image's name, without registry, path and tag."""
    last = image.partition("@")[0].rpartition("/")[2].partition(":")[0].lower()
    return re.sub(r"[^a-z0-9]+", "-", last).strip("-0123456789")[:MAX_NAME].strip("-") or "train"


MAX_NAME = 40
"""The maximum length of a name, so that names with roles and numbers are not too long."""


def _job(choices: Choices) -> dict[str, Any]:
    """Return a job file as a mapping."""
    namespace = {"namespace": choices.namespace} if choices.namespace else {}
    own = dict(frameworks.get(choices.framework).example(choices.replicas, choices.gpus))
    roles = own.pop("roles")
    resources = {"resources": {choices.gpu_resource: choices.gpus}} if choices.gpus else {}
    first = {"framework": choices.framework, "image": choices.image}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": choices.name, **namespace},
        "spec": {**first, **own, **resources, "roles": roles},
    }


def _resources(resources: Mapping[str, Any]) -> str:
    """Return the lines of `resources`, with comments for cpu and memory."""
    text = _yaml({"resources": resources}) if resources else "#resources:"
    mark = "\n  #" if resources else "\n#  "
    return text + "".join(f"{mark}{name}: {flow(size)}" for name, size in SIZES.items())


SIZES = {"cpu": "8", "memory": "64Gi"}
"""Resources that are written as comments."""


def _next(choices: Choices) -> list[str]:
    """Return blocks of lines with optional fields that many jobs need, as comments.

    Lines with fields begin with `#`, and explanations with `# `. Blocks that the framework does not
    accept are omitted.
    """
    path = folder("templates") / "init" / "next.yaml"
    blocks = indent(path.read_text(encoding="utf-8").rstrip(), "  ").split("\n\n")
    if not _is_accepted(choices, blocks):
        blocks = [block for block in blocks if _is_accepted(choices, [block])]
    return [re.sub("(?m)^  (?!#)", "  #", block) for block in blocks]


def _is_accepted(choices: Choices, blocks: list[str]) -> bool:
    """Return True if a job file with these additional lines of `spec` can be rendered."""
    text = "\n".join([_yaml(_job(choices)), *blocks])
    try:
        pipeline.render([Text("", f"{text}\n")], Options())
    except MlgenError:
        return False
    return True


def _yaml(fields: Mapping[str, Any]) -> str:
    """Return a mapping as YAML, with mappings as blocks and other values in flow style."""
    return "\n".join(
        f"{flow(name)}:\n{indent(_yaml(value), '  ')}"
        if isinstance(value, dict) and value
        else f"{flow(name)}: {flow(value)}"
        for name, value in fields.items()
    )


def ssh_secret(name: str, namespace: str | None) -> str:
    """Return the manifest of a Secret of type kubernetes.io/ssh-auth with a new Ed25519 key.

    This is not part of `render`, whose output is reproducible and contains no private keys. It
    has the same data keys as the MPI operator's Secret (pkg/controller/mpi_job_controller.go).

    Raises:
        ValueError: Kubernetes does not accept the name.
        RuntimeError: ssh-keygen is not installed, or failed; the message contains the fix.
    """
    if not is_subdomain(name):
        message = f'"{name}" is not a valid name; use lowercase letters, digits, dashes and dots'
        raise ValueError(message)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "key"
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(file)]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
        except FileNotFoundError:
            message = "ssh-keygen is not installed; install the OpenSSH client (openssh-client)"
            raise RuntimeError(message) from None
        except subprocess.CalledProcessError as error:
            raise RuntimeError(f"ssh-keygen failed: {error.stderr.strip()}") from None
        private, public = file.read_text(), file.with_suffix(".pub").read_text()
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name} | ({"namespace": namespace} if namespace else {}),
        "type": "kubernetes.io/ssh-auth",
        "stringData": {"ssh-privatekey": private, "ssh-publickey": public},
    }
    return yaml_text([manifest])
