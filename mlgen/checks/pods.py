"""Objects → the pods of a job and what they are told: what the checks share.

A finding is said of an object; its problem is said of the job file of which that was made.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mlgen.kubernetes.labels import JOB_INDEX, SET_INDEX
from mlgen.objects.labels import ROLE
from mlgen.problems import Problem, ValuePath
from mlgen.topology import INDEX_NAME

Object = dict[str, Any]

WORKLOADS = ("Job", "StatefulSet", "Deployment")
"""The kinds that make pods."""

ROLES: ValuePath = ("spec", "roles")

TEMPLATE: ValuePath = ("spec", "template")
POD: ValuePath = (*TEMPLATE, "spec")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that does not hold.

    Attributes:
        item: the object of which it is said.
        where: the value in that object.
        problem: the same, as a problem of the job file of which the object was made.
    """

    item: Object
    where: ValuePath
    problem: Problem


@dataclass(frozen=True)
class Pods:
    """The pods of one workload.

    Attributes:
        item: the Job, StatefulSet or Deployment.
        name: their host name without the index; the whole of it where `indexed` is False.
        count: None where there may be any number: a suspended StatefulSet has none yet.
        together: how many of them run at a time.
    """

    item: Object
    name: str
    indexed: bool
    count: int | None
    together: int | None

    @property
    def path(self) -> ValuePath:
        """Their place in the job file."""
        return role_path(self.item)

    @property
    def template(self) -> Object:
        """The pod template."""
        template: Object = self.item["spec"]["template"]
        return template

    @property
    def account(self) -> str | None:
        """The name of their service account."""
        account: str | None = self.template["spec"].get("serviceAccountName")
        return account

    @property
    def subdomain(self) -> tuple[ValuePath, str | None]:
        """The Service under whose name DNS has their host names, and where that is said.

        The controller gives the pods of a StatefulSet the one of `serviceName`, whatever their
        template says (pkg/controller/statefulset/stateful_set_utils.go, initIdentity).
        """
        if self.item["kind"] == "StatefulSet":
            return ("spec", "serviceName"), self.item["spec"].get("serviceName")
        return (*POD, "subdomain"), self.template["spec"].get("subdomain")

    def has(self, host: str) -> bool:
        """Return whether one of them has this host name."""
        index = self.index(host)
        return index is not None and (self.count is None or index < self.count)

    def index(self, host: str) -> int | None:
        """Return the index in a host name that is one of theirs, were they enough; else None."""
        if not self.indexed:
            return 0 if host == self.name else None
        name, _, index = host.rpartition("-")
        if name != self.name or not index.isdecimal() or str(int(index)) != index:
            return None
        return int(index)

    def selected(self, selector: Mapping[str, str]) -> bool:
        """Return whether one of them has all of these labels; no labels select nothing."""
        labels = self.template["metadata"]["labels"]
        controlled = SET_INDEX if self.item["kind"] == "StatefulSet" else JOB_INDEX
        rest = {key: value for key, value in selector.items() if labels.get(key) != value}
        # The index is a label that the controllers add.
        index = rest.pop(controlled, "0") if self.indexed else "0"
        return bool(selector) and not rest and self.has(self._host(index))

    def _host(self, index: str) -> str:
        return f"{self.name}-{index}" if self.indexed else self.name

    def containers(self) -> Iterator[tuple[ValuePath, Object]]:
        """Return the init containers and the containers, and where they stand."""
        for field in ("initContainers", "containers"):
            for number, container in enumerate(self.template["spec"].get(field, [])):
                yield (*POD, field, number), container

    def volumes(self) -> Iterator[tuple[ValuePath, Object]]:
        """Return the volumes, and where they stand."""
        for number, volume in enumerate(self.template["spec"].get("volumes", [])):
            yield (*POD, "volumes", number), volume

    def ports(self) -> list[int]:
        """Return the ports that the training container declares."""
        main: Object = next(iter(self.template["spec"]["containers"]), {})
        return [port["containerPort"] for port in main.get("ports", [])]


@dataclass(frozen=True)
class Objects:
    """The objects of one job, and its name."""

    name: str
    items: Sequence[Object]

    @cached_property
    def pods(self) -> list[Pods]:
        """The pods, by workload."""
        return [pods_of(item) for item in self.items if item["kind"] in WORKLOADS]

    @cached_property
    def by_host(self) -> dict[str, Pods]:
        """The pods by their host name, without the index."""
        return {pods.name: pods for pods in self.pods}

    def of_host(self, host: str) -> Pods | None:
        """Return the pods whose host names are like this one, be it that of another index."""
        found = (self.by_host.get(name) for name in (host, host.rpartition("-")[0]))
        return next((pods for pods in found if pods and pods.index(host) is not None), None)

    @cached_property
    def _kinds(self) -> dict[str, dict[str, Object]]:
        found: dict[str, dict[str, Object]] = {}
        for item in self.items:
            found.setdefault(item["kind"], {})[name_of(item)] = item
        return found

    def of(self, kind: str) -> dict[str, Object]:
        """Return the objects of a kind, by name."""
        return self._kinds.get(kind, {})

    @cached_property
    def _labelled(self) -> dict[tuple[str, str], list[Pods]]:
        found: dict[tuple[str, str], list[Pods]] = {}
        for pods in self.pods:
            for label in pods.template["metadata"]["labels"].items():
                found.setdefault(label, []).append(pods)
        return found

    def selected(self, selector: Mapping[str, str]) -> Iterator[Pods]:
        """Return the pods of which one at least has all of these labels."""
        written = (label for label in selector.items() if label[0] not in (JOB_INDEX, SET_INDEX))
        able = (self._labelled.get(label, []) for label in written)
        return (pods for pods in min(able, key=len, default=()) if pods.selected(selector))


def pods_of(item: Object) -> Pods:
    """Return the pods of a Job, StatefulSet or Deployment."""
    kind, spec, name = item["kind"], item["spec"], name_of(item)
    count = spec.get("completions" if kind == "Job" else "replicas", 1)
    indexed = kind == "StatefulSet" or spec.get("completionMode") == "Indexed"
    host = name if indexed else spec["template"]["spec"].get("hostname", name)
    # A Job with no parallelism is held for now, as a StatefulSet with no replicas is.
    together = spec.get("parallelism", 1) if kind == "Job" else count
    return Pods(item, host, indexed, count or None, together or None)


def name_of(item: Object) -> str:
    """Return the name of an object."""
    name: str = item["metadata"]["name"]
    return name


def called(item: Object) -> str:
    """Return an object's kind and name, as messages have it."""
    return f"{item['kind']} {name_of(item)}"


def role_path(item: Object) -> ValuePath:
    """Return where the job file speaks of the role that an object is of."""
    role = item["metadata"]["labels"].get(ROLE)
    return (*ROLES, role) if role else ROLES


@dataclass(frozen=True, slots=True)
class Text:
    """A text in which replicas may be named.

    Attributes:
        said: how a message calls it.
        own: the first and the last index of the replicas that read it.
        ports: what follows a colon is a port.
    """

    item: Object
    where: ValuePath
    said: str
    text: str
    own: tuple[str, ...] = ()
    ports: bool = True


def texts(pods: Iterable[Pods]) -> Iterator[Text]:
    """Return all variables, commands and arguments of containers."""
    for found in pods:
        for where, container in found.containers():
            env = container.get("env", [])
            own = _own_indexes(found, env)
            for number, item in enumerate(env):
                path = (*where, "env", number, "value")
                yield Text(found.item, path, item["name"], item.get("value", ""), own)
            for field in ("command", "args"):
                for number, text in enumerate(container.get(field, [])):
                    yield Text(found.item, (*where, field, number), field, text, own)


def _own_indexes(pods: Pods, env: Iterable[Object]) -> tuple[str, ...]:
    """A replica with a workload of its own has its index written out."""
    written = [item["value"] for item in env if item["name"] == INDEX_NAME and "value" in item]
    return tuple(written) or ("0", str((pods.count or 1) - 1))
