"""A custom resource → a TrainingJob document: what all dialects have in common.

A dialect reads `SourceValue`s and puts them into a `Builder`, which remembers where each of them
came from. So a problem of the job is reported at the value of the custom resource.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mlgen.dialects._source_value import SourceValue
from mlgen.dialects._volumes import short_volume
from mlgen.documents.document import Document
from mlgen.jobfile.schema import API_VERSION, KIND
from mlgen.kubernetes.labels import KUEUE_QUEUE, LAST_APPLIED
from mlgen.problems import Code, Collector, Problem, ValuePath

ENDLESS = 2147483647
"""The largest backoffLimit: operators that start replicas again without a limit do so here too."""

CONTAINER_SHORT = ("image", "imagePullPolicy", "command", "args", "workingDir")
POD_SHORT = ("serviceAccountName", "nodeSelector", "tolerations", "affinity")
"""Fields of a pod that a role has under the same names."""

ROLE_ORDER = (
    "replicas",
    "restartPolicy",
    "retryableExitCodes",
    "backoffLimit",
    "mainContainer",
    *CONTAINER_SHORT,
    "env",
    "resources",
    "volumes",
    "port",
    *POD_SHORT,
)
OF_ONE_ROLE = ("replicas", "backoffLimit")
SPEC_ORDER = ("framework", "options", *ROLE_ORDER, "roles")
"""What a reader looks for first stands first."""


@dataclass
class Builder:
    """A TrainingJob in the making.

    Attributes:
        given: the custom resource.
        data: the TrainingJob.
        origins: from where in the custom resource values came, by their paths in the TrainingJob;
            for what lies within such a value its place there.
        collector: what makes no sense, and as warnings what differs from what the operator does.
    """

    given: SourceValue
    data: dict[str, Any] = field(default_factory=dict)
    origins: dict[ValuePath, ValuePath] = field(default_factory=dict)
    collector: Collector = field(default_factory=Collector)

    def __post_init__(self) -> None:
        self.data = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {}, "spec": {}}
        self.origins = {(word,): (word,) for word in self.data}
        self._metadata()

    def _metadata(self) -> None:
        meta = self.given.get("metadata")
        name, generated = meta.get("name"), meta.get("generateName")
        if not name and generated:
            made = generated.value.rstrip("-.")
            self.put(("metadata", "name"), generated, made)
            hint = "write metadata.name if there is more than one"
            self.differs(generated, f"every job made of it is called {made} here", hint)
        elif not name:
            self.refuse(meta, 'the field "name" is missing', "give the job a name", "missing-field")
        self.put(("metadata", "name"), name)
        self.put(("metadata", "namespace"), meta.get("namespace"))
        labels = dict(meta.get("labels").value or {})
        queue = labels.pop(KUEUE_QUEUE, None)
        if queue:
            self.put(("spec", "scheduling", "gang"), meta.get("labels", KUEUE_QUEUE), "kueue")
            self.put(("spec", "scheduling", "queue"), meta.get("labels", KUEUE_QUEUE), queue)
        self.put(("metadata", "labels"), meta.get("labels"), labels)
        notes = dict(meta.get("annotations").value or {})
        notes.pop(LAST_APPLIED, None)
        self.put(("metadata", "annotations"), meta.get("annotations"), notes)

    @property
    def name(self) -> str:
        """The job's name."""
        return str(self.data["metadata"].get("name", ""))

    @property
    def spec(self) -> SourceValue:
        """The `spec` of the custom resource."""
        return self.given.get("spec")

    @property
    def roles(self) -> dict[str, dict[str, Any]]:
        """The roles that are written already, by name."""
        found: dict[str, dict[str, Any]] = self.data["spec"].get("roles", {})
        return found

    def put(self, path: ValuePath, source: SourceValue, value: Any = None) -> None:
        """Write a value into the TrainingJob; nothing where there is none.

        Args:
            path: where, such as ("spec", "runPolicy", "suspend").
            source: where it came from.
            value: what is written, where that is not the source's own value.
        """
        value = source.value if value is None else value
        if value in (None, {}, []):
            return
        target: Any = self.data
        for step in path[:-1]:
            target = target.setdefault(step, {})
        target[path[-1]] = value
        self.origins[path] = source.path

    def refuse(
        self, source: SourceValue, message: str, hint: str = "", code: Code = "refused"
    ) -> None:
        """Note what the operator itself would refuse, or what cannot be rendered."""
        self.collector.add(Problem(source.path, message, code, hint))

    def differs(self, source: SourceValue, message: str, hint: str = "") -> None:
        """Note as a warning what the operator does and the rendered job does not."""
        self.collector.add(Problem(source.path, message, "differs", hint, warning=True))

    def role(
        self, name: str, template: SourceValue, main: SourceValue, port: str | None = None
    ) -> None:
        """Write a role: its pod template in short forms, and what has none as a template.

        Args:
            name: of the role.
            template: of its pods.
            main: the training container in it.
            port: the name under which the operator knows the port that peers dial.
        """
        at = ("spec", "roles", name)
        self.data["spec"].setdefault("roles", {})[name] = {}
        self.origins["spec", "roles", name] = template.path[:-1]
        self.put((*at, "mainContainer"), main.get("name"))
        for word in CONTAINER_SHORT:
            self.put((*at, word), main.get(word))
        self._resources(at, main.get("resources"))
        self._env(name, main.get("env"))
        known = (*CONTAINER_SHORT, "name", "env")
        left = {k: v for k, v in main.value.items() if k not in known}
        if set(main.get("resources").value or {}) <= {"requests", "limits"}:
            left.pop("resources", None)
        if port:
            self._port(at, main, port, left)
        for word in POD_SHORT:
            self.put((*at, word), template.get("spec", word))
        short = self._volumes(name, template, main)
        left["volumeMounts"] = [m for m in left.get("volumeMounts", []) if m["name"] not in short]
        self._template(name, template, main, left, short)

    def _volumes(self, role: str, template: SourceValue, main: SourceValue) -> set[str]:
        """Write in short form what only the training container mounts; return the names."""
        pod = template.get("spec")
        others = [
            mount["name"]
            for word in ("containers", "initContainers")
            for container in pod.get(word).items()
            if container.path != main.path
            for mount in container.value.get("volumeMounts", [])
        ]
        found = set()
        for volume in pod.get("volumes").items():
            name = volume.value["name"]
            mounts = [m for m in main.get("volumeMounts").items() if m.value["name"] == name]
            source = short_volume(volume.value)
            if source and len(mounts) == 1 and name not in others:
                mount = {k: v for k, v in mounts[0].value.items() if k != "name"}
                if set(mount) <= {"mountPath", "subPath", "readOnly"}:
                    self.put(("spec", "roles", role, "volumes", name), volume, mount | source)
                    found.add(name)
        return found

    def _resources(self, at: ValuePath, given: SourceValue) -> None:
        """Requests and limits; a limit without a request is the request too, as in Kubernetes.

        https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/
        """
        limits = given.get("limits").value or {}
        requests = limits | (given.get("requests").value or {})
        if set(given.value or {}) - {"requests", "limits"}:
            return
        if requests == limits:
            self.put((*at, "resources"), given.get("limits"), limits)
        else:
            both = {"requests": requests, "limits": limits}
            self.put((*at, "resources"), given, {k: v for k, v in both.items() if v})

    def _env(self, role: str, env: SourceValue) -> None:
        """The variables by name; of two of one name the last counts, as in a container."""
        found: dict[str, Any] = {}
        path = ("spec", "roles", role, "env")
        for item in env.items():
            name, source = item.value["name"], item.get("valueFrom")
            if name in found:
                self.differs(item.get("name"), f"{name} stands here twice", "the last one counts")
            found[name] = {"valueFrom": source.value} if source else item.value.get("value", "")
            origin = item.path if source else item.get("value").path
            self.origins[(*path, name)] = origin
        self.put(("spec", "roles", role, "env"), env, found)

    def _port(self, at: ValuePath, main: SourceValue, name: str, left: dict[str, Any]) -> None:
        """The operator's port under our name; what else is said of it stays in the template."""
        for port in main.get("ports").items():
            if port.value.get("name") == name:
                self.put((*at, "port"), port.get("containerPort"))
                if set(port.value) <= {"name", "containerPort", "protocol"}:
                    left["ports"] = [p for p in left["ports"] if p is not port.value]

    def _template(
        self,
        role: str,
        template: SourceValue,
        main: SourceValue,
        left: dict[str, Any],
        short: set[str],
    ) -> None:
        """What has no short form, merged into the pod template as it is."""
        path = ("spec", "roles", role, "template")
        meta, spec = template.get("metadata"), template.get("spec")
        found: dict[str, Any] = {}
        noted = {k: meta.value[k] for k in ("labels", "annotations") if meta.get(k).value}
        if noted:
            found["metadata"] = noted
        rest = {
            k: v
            for k, v in spec.value.items()
            if k not in (*POD_SHORT, "restartPolicy", "containers")
        }
        volumes = [v for v in rest.pop("volumes", []) if v["name"] not in short]
        if volumes:
            rest["volumes"] = volumes
        left = {k: v for k, v in left.items() if v not in ([], {})}
        containers = [({"name": main.value["name"], **left}, main.path)] if left else []
        others = (item for item in spec.get("containers").items() if item.path != main.path)
        containers += [(item.value, item.path) for item in others]
        if containers:
            rest["containers"] = [value for value, _ in containers]
        for i, (_, origin) in enumerate(containers):
            self.origins[(*path, "spec", "containers", i)] = origin
        if rest:
            found["spec"] = rest
        self.put(("spec", "roles", role, "template"), template, found)

    def share_templates(self) -> None:
        """Say once what the templates of all roles say alike, down to a single label."""
        roles = list(self.roles.items())
        shared = _alike([role.get("template", {}) for _, role in roles]) if roles[1:] else {}
        if not shared:
            return
        self.data["spec"]["template"] = shared
        first = ("spec", "roles", roles[0][0], "template")
        for path in [path for path in self.origins if path[: len(first)] == first]:
            self.origins[("spec", "template", *path[len(first) :])] = self.origins[path]
        for _, role in roles:
            role["template"] = _besides(role["template"], shared)
            if not role["template"]:
                del role["template"]

    def finish(self, document: Document) -> Document:
        """Return the TrainingJob, whose values know their places in the custom resource.

        Args:
            document: the custom resource.
        """
        self._share()
        spec = self.data["spec"]
        spec["roles"] = {k: _ordered(v, ROLE_ORDER) for k, v in spec.get("roles", {}).items()}
        self.data["spec"] = _ordered(spec, SPEC_ORDER)
        made = Document(self.data, {(): document.place(())}, text=document.text)
        for path in _paths(self.data, ()):
            origin = self._origin(path)
            if origin in document.places:
                made.origins[path] = origin
                made.places[path] = document.places[origin]
                made.keys[path] = document.key_place(origin)
                if origin in document.texts:
                    made.texts[path] = document.texts[origin]
        return made

    def _origin(self, path: ValuePath) -> ValuePath | None:
        for length in range(len(path), 0, -1):
            if path[:length] in self.origins:
                return (*self.origins[path[:length]], *path[length:])
        return None

    def _share(self) -> None:
        """What all roles say alike is said once, for all roles."""
        spec = self.data["spec"]
        roles = list(spec.get("roles", {}).items())
        if len(roles) == 1:
            return
        first, *others = roles or [("", {})]
        for word in [w for w in first[1] if w in ROLE_ORDER and w not in OF_ONE_ROLE]:
            value = first[1][word]
            if all(role.get(word) == value for _, role in others):
                spec[word] = {**spec[word], **value} if word in spec else value
                for name, role in roles:
                    del role[word]
                    self._move(("spec", "roles", name, word), ("spec", word), keep=name == first[0])

    def _move(self, old: ValuePath, new: ValuePath, *, keep: bool) -> None:
        for path in [path for path in self.origins if path[: len(old)] == old]:
            origin = self.origins.pop(path)
            if keep:
                self.origins[(*new, *path[len(old) :])] = origin


def _ordered(given: dict[str, Any], order: tuple[str, ...]) -> dict[str, Any]:
    """The fields that are in the order first; `roles` and what else there is after them."""
    return {k: given[k] for k in order if k in given} | {
        k: v for k, v in given.items() if k not in order
    }


def _alike(values: list[dict[str, Any]]) -> dict[str, Any]:
    """The fields, and fields of fields, that are the same in all of these mappings."""
    found: dict[str, Any] = {}
    for key, value in values[0].items():
        every = [other.get(key) for other in values]
        if all(other == value for other in every):
            found[key] = value
        elif all(isinstance(other, dict) for other in every):
            inner = _alike([other for other in every if isinstance(other, dict)])
            found |= {key: inner} if inner else {}
    return found


def _besides(value: dict[str, Any], shared: dict[str, Any]) -> dict[str, Any]:
    """What a mapping says besides what is in another one."""
    found: dict[str, Any] = {}
    for key, inner in value.items():
        if key not in shared:
            found[key] = inner
        elif inner != shared[key]:
            found[key] = _besides(inner, shared[key])
    return found


def _paths(value: Any, path: ValuePath) -> Iterator[ValuePath]:
    yield path
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _paths(inner, (*path, name))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _paths(inner, (*path, i))
