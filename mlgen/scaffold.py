"""A framework and a few numbers → a commented job file to start from, for `mlgen init`."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from shlex import quote
from textwrap import indent
from typing import Any

from mlgen import frameworks, pipeline
from mlgen.documents.files import Text
from mlgen.flow import flow
from mlgen.jobfile.model import API_VERSION, KIND
from mlgen.jobfile.schema import with_hints
from mlgen.kubernetes.versions import KubeVersion
from mlgen.problems import MlgenError
from mlgen.resources import folder
from mlgen.result import Options

GPUS = "nvidia.com/gpu"

SCHEMA = ".mlgen/job.schema.json"
"""Where the schema for editors is, from the folder of the job file.

`mlgen render FOLDER` would read a file of JSON that is in the folder itself.
"""

MODELINE = f"# yaml-language-server: $schema={SCHEMA}"
"""The comment by which editors find the schema: https://github.com/redhat-developer/yaml-language-server."""

NEXT = "Optional fields. To use one, remove the # before its lines."


@dataclass(frozen=True)
class Choices:
    """What a first job depends on.

    Attributes:
        framework: its name.
        image: of all replicas.
        name: of the job.
        replicas: the number of replicas that compute.
        gpus: in each of them; 0 for none.
        gpu_resource: the name that the device plugin gives to them.
        namespace: of the job; None to leave it to kubectl.
        schema: whether editors find the schema at `SCHEMA`.
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
    """Return a job file as YAML, with comments on what it has, and on what it may need next.

    Args:
        choices: what it depends on.
        file: its name in comments.

    Raises:
        MlgenError: the image or a name is wrong.
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
        pipeline.render([Text(file, text)], Options())
    except MlgenError as error:  # there is no file yet in which a problem could have a place
        raise MlgenError(replace(problem, place=None) for problem in error.problems) from None
    return text


def editor_schema(version: KubeVersion) -> str:
    """Return the JSON Schema of the job file for editors as text, with a snippet per framework.

    Args:
        version: of Kubernetes, whose pod templates are in it.
    """
    names = frameworks.names()
    summaries = {name: frameworks.get(name).summary for name in names}
    schema = frameworks.published_schema(names, version)
    return json.dumps(with_hints(schema, summaries, dict(map(_snippet, names))), indent=2) + "\n"


def _snippet(framework: str) -> tuple[str, str]:
    """Return a framework's name, and its example with marks for what the user changes."""
    choices = Choices(framework, "${2:example/train:1}", "${1:train}", replicas=2, gpus=8)
    return framework, _yaml(_job(choices)).replace('"${', "${").replace('}"', "}")


def job_name(image: str) -> str:
    """Return the name of an image, without its registry, path and tag, as the name of a job."""
    last = image.partition("@")[0].rpartition("/")[2].partition(":")[0].lower()
    return re.sub(r"[^a-z0-9]+", "-", last).strip("-0123456789")[:MAX_NAME].strip("-") or "train"


MAX_NAME = 40
"""The number of characters of a name that leaves room for roles and numbers."""


def _job(choices: Choices) -> dict[str, Any]:
    """Return a job file."""
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
"""Resources that a comment shows."""


def _next(choices: Choices) -> list[str]:
    """Return blocks of lines with the fields that many jobs need next, as comments.

    Their fields begin with `#`, and what they are for with `# `. A block that the framework does
    not accept is left out.
    """
    path = folder("templates") / "init" / "next.yaml"
    blocks = indent(path.read_text(encoding="utf-8").rstrip(), "  ").split("\n\n")
    if not _is_accepted(choices, blocks):
        blocks = [block for block in blocks if _is_accepted(choices, [block])]
    return [re.sub("(?m)^  (?!#)", "  #", block) for block in blocks]


def _is_accepted(choices: Choices, blocks: list[str]) -> bool:
    """Return True if a job file with further lines of `spec` can be rendered."""
    text = "\n".join([_yaml(_job(choices)), *blocks])
    try:
        pipeline.render([Text("", f"{text}\n")], Options())
    except MlgenError:
        return False
    return True


def _yaml(fields: Mapping[str, Any]) -> str:
    """Return a mapping as lines of YAML: mappings as blocks, all else in flow style."""
    return "\n".join(
        f"{flow(name)}:\n{indent(_yaml(value), '  ')}"
        if isinstance(value, dict) and value
        else f"{flow(name)}: {flow(value)}"
        for name, value in fields.items()
    )
