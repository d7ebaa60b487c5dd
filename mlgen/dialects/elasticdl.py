"""ElasticDL: the master creates and replaces the pods of parameter servers and workers.

ElasticAIJob is designed in sql-machine-learning/elasticdl, docs/designs/elasticdl_operator.md. The
sample there uses elasticdl.org/v1, with blocks in lower case. The CRD is v1alpha1, with Master, PS
and Worker. Both are accepted. `jobArgs` may hold any arguments of `elasticdl train …`, with a name
and its value in one item or in two. Arguments that have a field in a TrainingJob are written there,
and all others are passed to the master. Names, defaults and the syntax of resources, volumes and
variables follow elasticdl_client/common: args.py, k8s_client.py, k8s_resource.py and
k8s_volume.py. A pod from `elasticdl train --yaml` needs no operator, and is not changed.
"""

import re
from collections.abc import Iterator

from mlgen.dialects._builder import NOTHING, Builder, Dialect, Field
from mlgen.dialects._schemas import read
from mlgen.kubernetes.quantity import natural
from mlgen.problems import ValuePath, choice, did_you_mean
from mlgen.shell import split

FACTS = read("elasticdl.json")

WORKERS = 2
"""The client's default number of workers."""

MASTER_RESOURCES = "cpu=0.1,memory=1024Mi"
"""The client's default for the master. The master has defaults for the other roles."""

COUNTS = {"ps": "num_ps_pods", "worker": "num_workers"}
"""The arguments for the number of replicas."""

BLOCK_NAMES = {"master": "Master", "ps": "PS", "worker": "Worker"}
"""The name of a role's block in `spec` of v1alpha1, by its name in v1."""

SWITCHES: dict[str, bool] = FACTS["switches"]
"""The values of arguments that are written without a value."""

ARGUMENTS: list[str] = [*SWITCHES, *FACTS["arguments"]]
"""The arguments of `elasticdl train`, `evaluate` and `predict`, of all releases."""

CLIENT_ARGUMENTS = ("yaml", "force_use_kube_config_file")
"""Arguments about how the client submits a job, which the rendered job does not need."""

VOLUME_FIELDS: dict[str, str] = FACTS["volumeFields"]
"""The fields of a volume in the job file, by name in ElasticDL; "" if there is none."""

RESOURCE_NAME = re.compile(r"cpu|memory|ephemeral-storage|gpu|[-.\w]+/gpu|nvidia\.com/.+")
RESOURCES = ("cpu", "memory", "ephemeral-storage", "gpu")
"""The names of resources that messages suggest."""

ARGUMENT = re.compile(r"--(\w+)(?:(?:=|\s+)(.*))?", re.DOTALL)


def _option_value(source: Field) -> str | int | bool:
    """Return an integer or a boolean if the master receives the same text, else the text."""
    if source.value in (True, "True", False, "False"):
        return source.value in (True, "True")
    text = str(source.value)
    number = natural(text)
    return text if number is None or str(number) != text else number


class ElasticAIJob(Builder):
    """An ElasticAIJob.

    Attributes:
        rest: the arguments, by name, that have not been written yet.
    """

    def write(self) -> None:
        """Write the job."""
        self.put_framework("elasticdl")
        self.rest = self._read_arguments()
        blocks = {role: self._block(role) for role in BLOCK_NAMES}
        image, env = self.take("image_name"), self.take("envs")
        mounted = [block.get("volume") for block in blocks.values() if block.get("volume")]
        volume = self.one_of(next(iter(mounted), NOTHING), "volume")
        for role, block in blocks.items():
            count = self._count(role, block)
            if role == "ps" and not (block or count):
                continue  # the master adds one with its defaults
            path = ("roles", role)
            self.add_role(role, block.path if block else self.spec.path)
            self.put((*path, "replicas"), count)
            role_image = self.one_of(block.get("image"), f"{role}_image") or image
            self.put((*path, "image"), role_image or blocks["master"].get("image"))
            self._write_resources(role, block)
            self._write_priority(role, block)
            self._write_volumes(role, block.get("volume") if mounted else volume)
            self._write_env(role, env)
        self._write_job_fields()

    def take(self, name: str) -> Field:
        """Remove and return an argument. An empty value counts as not set."""
        return self.rest.pop(name, NOTHING).or_unset()

    def one_of(self, block_field: Field, name: str) -> Field:
        """Return a field of a block, or an argument if the field is not set."""
        argument = self.take(name)
        if block_field:
            field_name = ".".join(map(str, block_field.path[-2:]))
            self.refuse_both(argument, f"--{name}", field_name)
        return block_field or argument or block_field

    def _read_arguments(self) -> dict[str, Field]:
        """Return the arguments by their full names."""
        arguments: dict[str, Field] = {}
        for name, source in self._pairs():
            full_name = self._full_name(name, source)
            value = SWITCHES.get(full_name) if source.value is None else source.value
            written = Field(full_name, source.path)
            if full_name in arguments:
                self.warn(
                    written,
                    f"duplicate argument --{full_name}; the last one takes effect",
                    "remove one of them",
                    code="no-effect",
                )
            if full_name and value is None:
                self.refuse(
                    written, f"argument --{full_name} has no value", f"write --{full_name}=VALUE"
                )
            elif full_name:
                arguments[full_name] = Field(value, source.path)
        return arguments

    def _pairs(self) -> Iterator[tuple[str, Field]]:
        """Yield the name of each argument with its value, which may be in the next item."""
        name: str | None = None
        last = NOTHING
        for item in self.spec.get("jobArgs").items():
            match = ARGUMENT.fullmatch(item.value.strip())
            if match:
                if name:
                    yield name, last
                name, last = match[1], Field(None, item.path)
                if match[2]:
                    yield name, Field(self._unquoted(item, match[2]), item.path)
                    name = None
            elif name:
                yield name, item
                name = None
            else:
                self.warn(
                    item,
                    f'"{item.value}" is not an argument or the value of an argument, so ElasticDL '
                    "ignores it",
                    "write --NAME VALUE",
                    code="no-effect",
                )
        if name:
            yield name, last

    def _unquoted(self, item: Field, text: str) -> str:
        """Return a value without the quotes that a shell would remove."""
        words = split(text) or []
        if len(words) != 1:
            self.refuse(
                item, f"a shell splits {text} into several words", "put the value in quotes"
            )
            return text
        return words[0]

    def _full_name(self, name: str, source: Field) -> str:
        """Return the full name of an argument, which Python's argparse lets users abbreviate."""
        longer = [full_name for full_name in ARGUMENTS if full_name.startswith(name)]
        if name in longer or len(longer) == 1:
            return name if name in longer else longer[0]
        written = Field(name, source.path)
        hint = did_you_mean(name, ARGUMENTS) or "see elasticdl train --help"
        if longer:  # argparse rejects the abbreviation of several arguments
            self.refuse(written, f"unknown argument --{name}", hint)
        else:
            self.warn(written, f"unknown argument --{name}, which ElasticDL logs and ignores", hint)
        return ""

    def _block(self, role: str) -> Field:
        """Return the block of a role, under either of its names."""
        lower, upper = self.spec.get(role), self.spec.get(BLOCK_NAMES[role])
        if lower:
            self.refuse_both(upper, role, BLOCK_NAMES[role])
        return lower or upper

    def _count(self, role: str, block: Field) -> Field:
        """Return the number of replicas: unset for the master, by default `WORKERS` for workers.

        The master's default for parameter servers is 1 (elasticdl_client/common/args.py,
        num_ps_pods).
        """
        if role == "master":
            return NOTHING
        count = self.one_of(block.get("count"), COUNTS[role])
        if not count and (role == "worker" or block):
            return Field(WORKERS if role == "worker" else 1, count.path)
        number = natural(count.value) if isinstance(count.value, str) else count.value
        if count and number is None:
            self.refuse(count, f'expected an integer, got "{count.value}"', "use digits only")
        return Field(number, count.path)

    def _write_resources(self, role: str, block: Field) -> None:
        """Write the resources of the master's pod, or of the pods that the master creates."""
        request = self.one_of(block.get("resource_request"), f"{role}_resource_request")
        limit = self.take(f"{role}_resource_limit")
        if role == "master" and not request:
            request = Field(MASTER_RESOURCES, request.path)
        requests = self._amounts(request)
        limits = self._amounts(limit) or requests
        equal = requests in ({}, limits)
        both = limits if equal else {"requests": requests, "limits": limits}
        source = limit if equal and limit else request
        self.put(("roles", role, "resources"), source, both)

    def _write_priority(self, role: str, block: Field) -> None:
        """Write the priority class of the master's pod, or of the pods that the master creates."""
        priority = self.one_of(block.get("priority"), f"{role}_pod_priority")
        path: ValuePath = ("options", "podPriority", role)
        if role == "master":
            path = ("roles", role, "template", "spec", "priorityClassName")
        if priority.value:
            self.put(path, priority)

    def _amounts(self, source: Field) -> dict[str, str]:
        """Return the amounts in `cpu=1,memory=1024Mi,gpu=1`, by their Kubernetes names."""
        amounts: dict[str, str] = {}
        for name, amount in self._fields(source, source.value or ""):
            if name == "disk":
                self.refuse(
                    source, 'Kubernetes has no resource "disk"', f"write ephemeral-storage={amount}"
                )
            elif not RESOURCE_NAME.fullmatch(name):
                self.refuse(source, f'unknown resource "{name}"', choice(name, RESOURCES))
            else:
                amounts["nvidia.com/gpu" if name == "gpu" else name] = amount
        return amounts

    def _write_volumes(self, role: str, source: Field) -> None:
        """Write volumes: `claim_name=c,mount_path=/data;host_path=/d,mount_path=/d`.

        Equal volumes of several roles get the same name.
        """
        volumes = self._written_volumes()
        for text in filter(None, (source.value or "").strip().split(";")):
            fields = dict(self._fields(source, text))
            unknown = [name for name in fields if name not in VOLUME_FIELDS]
            if unknown:
                self.refuse(
                    source,
                    f'unknown field "{unknown[0]}" of a volume',
                    choice(unknown[0], [*VOLUME_FIELDS]),
                )
            elif "mount_path" not in fields or len({"claim_name", "host_path"} & set(fields)) != 1:
                self.refuse(
                    source,
                    f'invalid volume "{text}"',
                    "set mount_path, and either claim_name or host_path",
                )
            else:
                if "type" in fields:
                    self.warn(
                        source,
                        f"mlgen does not set the hostPath type {fields['type']}",
                        "make sure that the path exists on each node",
                    )
                volume = {
                    VOLUME_FIELDS[name]: v for name, v in fields.items() if VOLUME_FIELDS[name]
                }
                if volume not in volumes:
                    volumes.append(volume)
                name = f"volume-{volumes.index(volume)}"
                self.put(("roles", role, "volumes", name), source, volume)

    def _written_volumes(self) -> list[dict[str, str]]:
        """Return the volumes of earlier roles, in the order of their names."""
        by_name = {k: v for role in self.roles.values() for k, v in role.get("volumes", {}).items()}
        return [by_name[f"volume-{i}"] for i in range(len(by_name))]

    def _fields(self, source: Field, text: str) -> Iterator[tuple[str, str]]:
        """Yield the fields of `a=1,b=2`, and report malformed and duplicate ones."""
        names: set[str] = set()
        for part in filter(None, text.strip().split(",")):
            name, equals, value = (word.strip() for word in part.partition("="))
            if not (name and equals and value):
                self.refuse(source, f'expected NAME=VALUE, got "{part}"')
            elif name in names:
                self.refuse(source, f'duplicate field "{name}"', "remove one of them")
            else:
                names.add(name)
                yield name, value

    def _write_env(self, role: str, source: Field) -> None:
        """Write the variables of `A=1,B=2`. Values may contain commas."""
        parts = re.split(r"(?:^|,)([^,=]+)=", source.value or "")[1:]
        for name, value in zip(parts[::2], parts[1::2], strict=True):
            self.put(("roles", role, "env", name), source, value)

    def _write_job_fields(self) -> None:
        """Write the arguments that apply to the whole job, and pass the rest to the master."""
        metadata = self.data["metadata"]
        for argument, field in (("job_name", "name"), ("namespace", "namespace")):
            source, written = self.take(argument), metadata.get(field)
            if source and written not in (None, source.value):
                self.refuse(
                    source,
                    f"--{argument} differs from metadata.{field}, {written}",
                    f"remove --{argument}",
                )
            elif field == "namespace":
                self.put_metadata(field, source)
        self.put(("options", "distributionStrategy"), self.take("distribution_strategy"))
        master = ("roles", "master")
        # The master also uses these two for the pods that it creates, so they stay in the rest.
        self.put((*master, "imagePullPolicy"), self.rest.get("image_pull_policy", NOTHING))
        self.put((*master, "restartPolicy"), self.rest.get("restart_policy", NOTHING))
        for argument in CLIENT_ARGUMENTS:
            self.take(argument)
        for argument, source in self.rest.items():
            if argument == "log_file_path" and source.value:
                self.warn(
                    source,
                    "the client also writes the master's output to this file; mlgen does not",
                    "use kubectl logs",
                )
            elif argument in ("cluster_spec", "cluster_spec_json") and source.value:
                self.warn(
                    source,
                    "the client also applies this to the master's pod; mlgen does not",
                    "set spec.roles.master.template",
                )
            self.put(("options", "arguments", argument), source, _option_value(source))


DIALECT = Dialect(
    groups=("elasticdl.org",),
    kinds={(version, "ElasticAIJob"): ElasticAIJob for version in FACTS["kinds"]},
)
