"""Objects of a job → its pods, containers and texts: the subjects of rules.

Rules report the path of a value in the object. `job_problems` in `mlgen/checks/__init__.py` finds
it in the job file.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from mlgen.documents.flags import ROLES
from mlgen.kubernetes.names import JOB_INDEX, SET_INDEX
from mlgen.kubernetes.objects import Object
from mlgen.kubernetes.quantity import natural
from mlgen.kubernetes.values import value_at
from mlgen.kubernetes.versions import DEFAULT, KubeVersion
from mlgen.launch.line import Line, Lines, container_lines
from mlgen.objects.labels import MAX_REPLICAS, REPLICA_INDEX, ROLE, files_name
from mlgen.problems import Code, Problem, ValuePath
from mlgen.rules import Rules
from mlgen.topology import INDEX, INDEX_NAME

AnyObject = TypeVar("AnyObject", bound=Mapping[str, Any])

WORKLOADS = ("Job", "StatefulSet", "Deployment")
"""The kinds that create pods."""

TEMPLATE: ValuePath = ("spec", "template")
POD: ValuePath = (*TEMPLATE, "spec")
NAME: ValuePath = ("metadata", "name")


def items_of(data: Any) -> Iterator[tuple[ValuePath, Any]]:
    """Yield the content of a document, or the items of a List, each with its path."""
    items = value_at(data, ("items",))
    if isinstance(items, list) and data.get("kind") == "List":
        yield from ((("items", number), item) for number, item in enumerate(items))
    else:
        yield (), data


def workloads(objects: Iterable[Object]) -> dict[str, Object]:
    """Return the objects that create pods, by name. Services may have the same names."""
    items = with_jobs(objects)
    return {item["metadata"]["name"]: item for item in items if item["kind"] in WORKLOADS}


def with_jobs(objects: Iterable[Object]) -> Iterator[Object]:
    """Yield the objects of a job, and the Jobs that JobSet creates: one for each replicated Job."""
    for item in objects:
        yield item
        for each in item["spec"]["replicatedJobs"] if item["kind"] == "JobSet" else ():
            template, name = each["template"], f"{item['metadata']['name']}-{each['name']}-0"
            space = {
                key: item["metadata"][key] for key in ("namespace",) if key in item["metadata"]
            }
            metadata = {"name": name, **space, **template["metadata"]}
            yield {"apiVersion": "batch/v1", "kind": "Job", **template, "metadata": metadata}


def in_jobset(host: str) -> tuple[str, str]:
    """Return the host names that a replica has in a JobSet, instead of `<job>-<role>-<index>`.

    The second one belongs to a replica that has its own Job.
    """
    role, _, index = host.rpartition("-")
    return f"{role}-0-{index}", f"{host}-0-0"


class Located(NamedTuple):
    """A problem of a job's objects, with a path in the job file.

    Attributes:
        item: the object.
        path: the path of the value in the object.
        problem: the problem, with its path in the job file.
    """

    item: Object
    path: ValuePath
    problem: Problem

    def as_warning(self, *, unless: bool = False) -> "Located":
        """Return an error as a warning, because some image may work."""
        warning = self.problem.warning or not unless
        return self._replace(problem=replace(self.problem, warning=warning))

    def or_at(self, path: ValuePath) -> "Located":
        """Return the problem with a path in the job file for a value that is not in it."""
        return self._replace(problem=replace(self.problem, path=path))


@dataclass(frozen=True)
class Pods:
    """The pods of one workload.

    Attributes:
        item: the Job, StatefulSet or Deployment.
        name: the host name of the pods, without the index if `indexed`.
        indexed: True if the host names end with an index.
        count: the number of pods; None if unknown, as for a suspended StatefulSet.
        together: the number of pods that run at a time; None if unknown.
        job: the objects of their job.
        template: the pod template.
        spec: its `spec`.
        limit: the maximum number of pods of an elastic job; 0 if it is not elastic.
    """

    item: Object
    name: str
    indexed: bool
    count: int | None
    together: int | None
    job: "Objects" = field(repr=False, compare=False)
    template: Object
    spec: Object
    limit: int = 0

    @property
    def account(self) -> str | None:
        """The name of their ServiceAccount."""
        account: str | None = self.spec.get("serviceAccountName")
        return account

    @property
    def node_selector(self) -> Mapping[str, str]:
        """The labels of the nodes that the pods select."""
        return self.spec.get("nodeSelector") or {}

    @property
    def has_placement(self) -> bool:
        """True if the pods select nodes or other pods."""
        fields = ("nodeName", "nodeSelector", "affinity", "topologySpreadConstraints")
        return not self.spec.keys().isdisjoint(fields)

    @property
    def subdomain(self) -> tuple[ValuePath, str | None]:
        """The name of the headless Service that publishes their host names, and its path.

        The StatefulSet controller sets the subdomain to `serviceName` and ignores the template's
        value (pkg/controller/statefulset/stateful_set_utils.go, initIdentity).
        """
        if self.item["kind"] == "StatefulSet":
            return ("spec", "serviceName"), self.item["spec"].get("serviceName")
        return (*POD, "subdomain"), self.spec.get("subdomain")

    def has(self, host: str) -> bool:
        """Return whether a pod has this host name, or can get it when an elastic job grows."""
        index = self.index(host)
        return index is not None and (self.count is None or index < max(self.count, self.limit))

    def index(self, host: str) -> int | None:
        """Return the index in a host name (0 if there is none); None for names of other pods.

        The index may be greater than the last pod's index.
        """
        if not self.indexed:
            return 0 if host == self.name else None
        name, _, text = host.rpartition("-")
        index = natural(text) if name == self.name else None
        return index if str(index) == text else None

    def selected(self, selector: Mapping[str, str]) -> bool:
        """Return whether a selector matches at least one pod. An empty selector matches none."""
        labels = self.template["metadata"]["labels"]
        index_label = SET_INDEX if self.item["kind"] == "StatefulSet" else JOB_INDEX
        unmatched = {key: value for key, value in selector.items() if labels.get(key) != value}
        # The controllers add the index as a label, so it is not in the template.
        index = unmatched.pop(index_label, "0") if self.indexed else "0"
        host = f"{self.name}-{index}" if self.indexed else self.name
        return bool(selector) and not unmatched and self.has(host)

    @cached_property
    def containers(self) -> "list[Container]":
        """The init containers, then the containers."""
        return [
            Container(self, (*POD, kind, number), data)
            for kind in ("initContainers", "containers")
            for number, data in enumerate(self.spec.get(kind, []))
        ]

    def volumes(self) -> Iterator[tuple[ValuePath, Object]]:
        """Yield the volumes, each with its path."""
        for number, volume in enumerate(self.spec.get("volumes", [])):
            yield (*POD, "volumes", number), volume

    def error(
        self, path: ValuePath, message: str, hint: str = "", code: Code = "combination"
    ) -> Located:
        """Return an error of a value, which cannot work in any image.

        Args:
            path: the path of the value in the object; () for the role.
            message: the problem.
            hint: the fix.
            code: the code of the problem.
        """
        return Located(self.item, path, Problem(role_path(self.item), message, code, hint))

    def warning(
        self, path: ValuePath, message: str, hint: str = "", code: Code = "combination"
    ) -> Located:
        """Return a warning of a value, which may work in some image; see `error`."""
        return self.error(path, message, hint, code).as_warning()


class Mount(NamedTuple):
    """A mount of a container.

    Attributes:
        path: its path below the container.
        data: the mount.
        volume: the volume.
    """

    path: ValuePath
    data: Object
    volume: Object


class ContainerText(NamedTuple):
    """A text that a container runs or reads: a word, a probe or a file.

    Attributes:
        item: the object that contains it.
        path: its path there.
        label: its name in messages.
        text: the text. An option and its value are one text.
        own_index: the text that Kubernetes or a shell replaces there by the index of the replica.
    """

    item: Object
    path: ValuePath
    label: str
    text: str
    own_index: str = f"${INDEX_NAME}"


HANDLERS: tuple[ValuePath, ...] = (
    ("livenessProbe",),
    ("readinessProbe",),
    ("startupProbe",),
    ("lifecycle", "postStart"),
    ("lifecycle", "preStop"),
)
"""The probes and hooks of a container."""


@dataclass(frozen=True)
class Container:
    """A container or init container of pods.

    Attributes:
        pods: the pods.
        path: its path in their object.
        data: its fields.
    """

    pods: Pods
    path: ValuePath
    data: Object

    @property
    def job(self) -> "Objects":
        """The objects of the job."""
        return self.pods.job

    @cached_property
    def lines(self) -> Lines:
        """The commands that it runs. Their paths are below the container."""
        return container_lines(self.data)

    @cached_property
    def line(self) -> Line:
        """The words of command and args, before a shell splits them."""
        return Line(self.lines.words, self.lines.paths)

    @cached_property
    def env(self) -> dict[str, str]:
        """The values of its variables; "" for a value from elsewhere."""
        return {item["name"]: str(item.get("value") or "") for item in self.data.get("env") or ()}

    @property
    def runs_once(self) -> bool:
        """True for an init container that must end before the others start."""
        is_init = self.path[-2] == "initContainers"
        return is_init and self.data.get("restartPolicy") != "Always"

    @cached_property
    def mounts(self) -> list[Mount]:
        """Its mounts of volumes of the pod."""
        volumes = {volume["name"]: volume for _, volume in self.pods.volumes()}
        return [
            Mount(("volumeMounts", number), mount, volumes[mount["name"]])
            for number, mount in enumerate(self.data.get("volumeMounts") or ())
            if mount.get("name") in volumes and mount.get("mountPath")
        ]

    @cached_property
    def folders(self) -> dict[str, Mount]:
        """Its mounts by the paths without the slash at the end; the first of several."""
        mounts = reversed(self.mounts)
        return {mount.data["mountPath"].rstrip("/"): mount for mount in mounts}

    @cached_property
    def texts(self) -> list[ContainerText]:
        """Its command line, probes and hooks, and the files of the job file that it mounts."""
        item, before, found = self.pods.item, "", list[ContainerText]()
        for at, text in zip(self.lines.paths, self.lines.words, strict=True):
            is_value = before.startswith("-") and text.startswith("$") and " " not in text
            whole = f"{before} {text}" if is_value else text
            found.append(ContainerText(item, (*self.path, *at), str(at[0]), whole, INDEX))
            before = text
        for steps in HANDLERS:
            at = (*steps, "exec", "command")
            for number, text in enumerate(value_at(self.data, at) or ()):
                path = (*self.path, *at, number)
                found.append(ContainerText(item, path, str(steps[-1]), str(text)))
        prefix = files_name(self.job.name, "")
        for mount in self.mounts:
            name = str(value_at(mount.volume, ("configMap", "name")))
            files = self.job.of_kind("ConfigMap").get(name, {}) if name.startswith(prefix) else {}
            for file, text in (files.get("data") or {}).items():
                found.append(ContainerText(files, ("data", file), file, str(text)))
        return found

    def doubt(self, text: ContainerText, message: str, hint: str, code: Code) -> Located:
        """Return a warning of one of its texts."""
        return self.pods.warning((), message, hint, code)._replace(item=text.item, path=text.path)

    def amounts(self, kind: str) -> Mapping[str, Any]:
        """Return its `limits` or `requests`."""
        return (self.data.get("resources") or {}).get(kind) or {}

    def error(
        self, path: ValuePath, message: str, hint: str = "", code: Code = "combination"
    ) -> Located:
        """Return an error of a value at a path below the container; see `Pods.error`."""
        return self.pods.error((*self.path, *path), message, hint, code)

    def warning(
        self, path: ValuePath, message: str, hint: str = "", code: Code = "combination"
    ) -> Located:
        """Return a warning of a value at a path below the container; see `Pods.error`."""
        return self.error(path, message, hint, code).as_warning()


@dataclass(frozen=True)
class Objects:
    """The objects of one job, with lookups.

    Attributes:
        name: the name of the job.
        items: all of its objects.
        alike: True if replicas of one role differ only in names, addresses and ports, as rendered.
        jobset: True if JobSet's controller runs the job, and adds its labels to the pods.
        version: the version of the cluster.
        job_file: the data of the job file; {} if there is none.
    """

    name: str
    items: Sequence[Object]
    alike: bool = False
    jobset: bool = False
    version: KubeVersion = DEFAULT
    job_file: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def distinct(self) -> Sequence[Object]:
        """The objects, with only one of each role's identical replicas."""
        return one_of_each(self.items) if self.alike else self.items

    @cached_property
    def distinct_pods(self) -> list[Pods]:
        """The pods of the distinct workloads."""
        return [pods_of(item, self) for item in self.distinct if item["kind"] in WORKLOADS]

    @cached_property
    def pods(self) -> list[Pods]:
        """The pods of each workload."""
        return [pods_of(item, self) for item in self.items if item["kind"] in WORKLOADS]

    @cached_property
    def by_host(self) -> dict[str, Pods]:
        """The pods of each workload, by host name without the index."""
        return {pods.name: pods for pods in self.pods}

    def of_host(self, host: str) -> Pods | None:
        """Return the pods of the workload that a host name belongs to, with any index."""
        for name in (host, host.rpartition("-")[0]):
            pods = self.by_host.get(name)
            if pods and pods.index(host) is not None:
                return pods
        return None

    @cached_property
    def claim_users(self) -> dict[str, list[Pods]]:
        """The pods of each workload, by the names of the PersistentVolumeClaims that they use."""
        users: dict[str, dict[int, Pods]] = {}
        for number, pods in enumerate(self.pods):
            for _, volume in pods.volumes():
                name = value_at(volume, ("persistentVolumeClaim", "claimName"))
                users.setdefault(str(name), {})[number] = pods
        return {name: [*found.values()] for name, found in users.items()}

    @cached_property
    def _by_kind(self) -> dict[str, dict[str, Object]]:
        objects: dict[str, dict[str, Object]] = {}
        for item in self.items:
            objects.setdefault(item["kind"], {})[name_of(item)] = item
        return objects

    def of_kind(self, kind: str) -> dict[str, Object]:
        """Return the objects of a kind, by name."""
        return self._by_kind.get(kind, {})

    @property
    def claims(self) -> dict[str, Object]:
        """The PersistentVolumeClaims, by name."""
        return self.of_kind("PersistentVolumeClaim")

    @property
    def roles(self) -> dict[str, Object]:
        """The Roles, by name."""
        return self.of_kind("Role")

    @property
    def pod_groups(self) -> dict[str, Object]:
        """The PodGroups, by name."""
        return self.of_kind("PodGroup")

    @cached_property
    def _by_label(self) -> dict[tuple[str, str], list[Pods]]:
        """The pods of each workload, by the labels of their template."""
        found: dict[tuple[str, str], list[Pods]] = {}
        for pods in self.pods:
            for label in pods.template["metadata"]["labels"].items():
                found.setdefault(label, []).append(pods)
        return found

    def selected(self, selector: Mapping[str, str]) -> Iterator[Pods]:
        """Return the pods of each workload with at least one pod that matches a selector."""
        # The rarest label leaves the fewest candidates.
        found = [
            self._by_label.get(label, [])
            for label in selector.items()
            if label[0] not in (JOB_INDEX, SET_INDEX)
        ]
        return (pods for pods in min(found, key=len, default=[]) if pods.selected(selector))


of_containers: Rules[Container, Located] = Rules("container")
of_pods: Rules[Pods, Located] = Rules("pods")
of_objects: Rules[Objects, Located] = Rules("objects")
of_manifests: Rules[Objects, Located] = Rules("manifests")
"""Rules that `mlgen verify` also applies to manifests."""


def pods_of(item: Object, job: Objects | None = None) -> Pods:
    """Return the pods of a Job, StatefulSet or Deployment.

    Args:
        item: the object.
        job: all objects of its job. Default: only this one.
    """
    kind, spec, name = item["kind"], item["spec"], name_of(item)
    count = spec.get("completions" if kind == "Job" else "replicas", 1)
    indexed = kind == "StatefulSet" or spec.get("completionMode") == "Indexed"
    host = name if indexed else spec["template"]["spec"].get("hostname", name)
    # In a suspended job, these may be 0, so the number of pods is unknown.
    together = spec.get("parallelism", 1) if kind == "Job" else count
    limit = item["metadata"].get("annotations", {}).get(MAX_REPLICAS, "")
    return Pods(
        item,
        host,
        indexed,
        count=count or None,
        together=together or None,
        job=job or Objects(name, [item]),
        template=spec["template"],
        spec=spec["template"]["spec"],
        limit=natural(limit) or 0,
    )


def one_of_each(objects: Iterable[AnyObject]) -> list[AnyObject]:
    """Return one object of each kind and role.

    The objects of a role's replicas differ only in names, addresses and ports.
    """
    of_roles: dict[tuple[str, str], AnyObject] = {}
    for item in objects:
        labels = item["metadata"].get("labels", {})
        role = labels.get(ROLE) if REPLICA_INDEX in labels else item["metadata"]["name"]
        of_roles.setdefault((item["kind"], role), item)
    return list(of_roles.values())


def name_of(item: Object) -> str:
    """Return the name of an object."""
    name: str = item["metadata"]["name"]
    return name


def title(item: Object) -> str:
    """Return the kind and the name of an object, for messages."""
    return f"{item['kind']} {name_of(item)}"


def role_path(item: Object) -> ValuePath:
    """Return the path in the job file of the role that an object belongs to."""
    role = item["metadata"]["labels"].get(ROLE)
    return (*ROLES, role) if role else ROLES


def broken(
    item: Object,
    path: ValuePath,
    message: str,
    hint: str = "do not override names set by mlgen",
    code: Code = "reference",
) -> Located:
    """Return the problem of a value in an object, at the role in the job file."""
    return Located(item, path, Problem(role_path(item), message, code, hint))


class Text(NamedTuple):
    """A text that may contain names of replicas.

    Attributes:
        item: the object that contains it.
        path: the path of the text in the object.
        label: its name in messages, such as the name of a variable.
        text: the text.
        reader_indexes: the first and the last index of the replicas that read it.
        has_ports: whether a number after a colon is a port.
    """

    item: Object
    path: ValuePath
    label: str
    text: str
    reader_indexes: tuple[str, ...] = ()
    has_ports: bool = True

    @property
    def dials(self) -> bool:
        """True if replicas connect to the names. Files and most MLGEN_ variables only list pods."""
        is_list = self.label.startswith("MLGEN_") and self.label != "MLGEN_PEERS"
        return self.has_ports and not is_list


def texts(workloads: Iterable[Pods]) -> Iterator[Text]:
    """Yield the variables, commands and arguments of all containers."""
    for pods in workloads:
        for container in pods.containers:
            env, path = container.data.get("env", []), container.path
            indexes = _reader_indexes(pods, env)
            for number, variable in enumerate(env):
                value_path = (*path, "env", number, "value")
                name, value = variable["name"], variable.get("value", "")
                yield Text(pods.item, value_path, name, value, indexes)
            for label in ("command", "args"):
                for number, text in enumerate(container.data.get(label, [])):
                    yield Text(pods.item, (*path, label, number), label, text, indexes)


def _reader_indexes(pods: Pods, env: Iterable[Object]) -> tuple[str, ...]:
    """Return the first and the last index, or the literal index of a replica's own workload."""
    literals = [item["value"] for item in env if item["name"] == INDEX_NAME and "value" in item]
    return tuple(literals) or ("0", str((pods.count or 1) - 1))
