"""A custom resource → a TrainingJob document: what all dialects have in common.

A dialect reads `Given` values and puts them into a `Draft`, which remembers where each of them came
from. So what is wrong with the job later is said of the custom resource, as its writer knows it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from mlgen.problems import Path, Problem
from mlgen.schema import API_VERSION, KIND, base
from mlgen.source import Document

ENDLESS = 2147483647
"""The largest backoffLimit: operators that start replicas again without a limit do so here too."""

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"

APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

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

TEXTS: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "string"}}
COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
SWITCH: dict[str, Any] = {"type": "boolean"}
TEXT: dict[str, Any] = {"type": "string"}

SERVER_WRITTEN = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "finalizers",
    "ownerReferences",
    "managedFields",
    "selfLink",
    "clusterName",
)
"""What `kubectl get -o yaml` prints besides, and `kubectl apply` has no use for."""

METADATA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "minLength": 1, "examples": ["mnist"]},
        "generateName": {"type": "string", "minLength": 1},
        "namespace": {"type": "string", "minLength": 1},
        "labels": TEXTS,
        "annotations": TEXTS,
    }
    | {name: {} for name in SERVER_WRITTEN},
}


def _named(definition: str, **lists: str) -> dict[str, Any]:
    """A list of what the job file's schema defines, whose items and their items have their keys."""
    keys = {name: {"items": {"required": [key]}} for name, key in lists.items()}
    rule = {"required": ["name"], "properties": keys}
    return {"type": "array", "items": {"allOf": [{"$ref": f"#/definitions/{definition}"}, rule]}}


CONTAINERS = _named("container", env="name", ports="containerPort", volumeMounts="name")

TEMPLATE: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["spec"],
    "properties": {
        "apiVersion": {},
        "kind": {},
        "metadata": METADATA,
        "spec": {
            "type": "object",
            "required": ["containers"],
            "properties": {
                "containers": CONTAINERS
                | {"minItems": 1, "examples": [[{"name": "main", "image": "example/mnist:1.4"}]]},
                "initContainers": CONTAINERS,
                "volumes": _named("volume"),
                "schedulerName": TEXT,
                "restartPolicy": TEXT,
                "hostNetwork": SWITCH,
            },
        },
    },
}
"""A PodTemplateSpec, as far as it is read here; the API server knows the rest of its fields.

Some write one as a whole Pod, whose apiVersion and kind the API server takes away.
"""


def mapping(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    """Return the JSON Schema of a mapping that has these fields and no others."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": dict(properties),
    }


def resource(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a custom resource with this `spec`."""
    words = {"apiVersion": TEXT, "kind": TEXT, "metadata": METADATA, "spec": spec, "status": {}}
    return mapping(words, "metadata", "spec") | {"definitions": base()["definitions"]}


@dataclass(frozen=True, slots=True)
class Given:
    """A value of a custom resource, and the way to it; it is false where nothing is given."""

    value: Any
    path: Path = ()

    def __bool__(self) -> bool:
        return self.value is not None

    def get(self, *steps: str | int) -> "Given":
        """Return a value within this one, given or not."""
        value = self.value
        for step in steps:
            if isinstance(value, dict):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                value = None
        return Given(value, (*self.path, *steps))

    def fields(self) -> Iterator[tuple[str, "Given"]]:
        """Return the fields of a mapping by name; of nothing, none."""
        return ((name, self.get(name)) for name in self.value or {})

    def items(self) -> Iterator["Given"]:
        """Return the items of a list; of nothing, none."""
        return (self.get(i) for i in range(len(self.value or [])))


@dataclass
class Draft:
    """A TrainingJob in the making.

    Attributes:
        given: the custom resource.
        data: the TrainingJob.
        origins: from where in the custom resource values came, by their paths in the TrainingJob;
            for what lies within such a value its place there.
        problems: what makes no sense, and as warnings what differs from what the operator does.
    """

    given: Given
    data: dict[str, Any] = field(default_factory=dict)
    origins: dict[Path, Path] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.data = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {}, "spec": {}}
        self.origins = {(word,): (word,) for word in self.data}
        self._metadata()

    def _metadata(self) -> None:
        meta = self.given.get("metadata")
        name, generated = meta.get("name"), meta.get("generateName")
        if not name and generated:
            made = generated.value.rstrip("-.")
            self.put("metadata.name", generated, made)
            cure = "write metadata.name if there is more than one"
            self.differs(generated, f"every job made of it is called {made} here", cure)
        elif not name:
            self.refuse(meta, 'the field "name" is missing', "give the job a name", "missing-field")
        self.put("metadata.name", name)
        self.put("metadata.namespace", meta.get("namespace"))
        labels = dict(meta.get("labels").value or {})
        queue = labels.pop(QUEUE_LABEL, None)
        if queue:
            self.put("spec.scheduling.gang", meta.get("labels", QUEUE_LABEL), "kueue")
            self.put("spec.scheduling.queue", meta.get("labels", QUEUE_LABEL), queue)
        self.put("metadata.labels", meta.get("labels"), labels)
        notes = dict(meta.get("annotations").value or {})
        notes.pop(APPLIED, None)
        self.put("metadata.annotations", meta.get("annotations"), notes)

    @property
    def name(self) -> str:
        """The job's name."""
        return str(self.data["metadata"].get("name", ""))

    @property
    def spec(self) -> Given:
        """The `spec` of the custom resource."""
        return self.given.get("spec")

    @property
    def roles(self) -> dict[str, dict[str, Any]]:
        """The roles that are written already, by name."""
        found: dict[str, dict[str, Any]] = self.data["spec"].get("roles", {})
        return found

    def put(self, at: str, source: Given, value: Any = None) -> None:
        """Write a value into the TrainingJob; nothing where there is none.

        Args:
            at: where, such as `spec.runPolicy.suspend`.
            source: where it came from.
            value: what is written, where that is not the source's own value.
        """
        value = source.value if value is None else value
        if value in (None, {}, []):
            return
        path = tuple(at.split("."))
        target = self.data
        for step in path[:-1]:
            target = target.setdefault(step, {})
        target[path[-1]] = value
        self.origins[path] = source.path

    def refuse(self, source: Given, message: str, cure: str = "", code: str = "refused") -> None:
        """Note what the operator itself would refuse, or what cannot be rendered."""
        self.problems.append(Problem(source.path, message, code, cure))

    def differs(self, source: Given, message: str, cure: str = "") -> None:
        """Note as a warning what the operator does and the rendered job does not."""
        self.problems.append(Problem(source.path, message, "differs", cure, warning=True))

    def role(self, name: str, template: Given, main: Given, port: str | None = None) -> None:
        """Write a role: its pod template in short forms, and what has none as a template.

        Args:
            name: of the role.
            template: of its pods.
            main: the training container in it.
            port: the name under which the operator knows the port that peers dial.
        """
        at = f"spec.roles.{name}"
        self.data["spec"].setdefault("roles", {})[name] = {}
        self.origins["spec", "roles", name] = template.path[:-1]
        self.put(f"{at}.mainContainer", main.get("name"))
        for word in CONTAINER_SHORT:
            self.put(f"{at}.{word}", main.get(word))
        self._resources(at, main.get("resources"))
        self._env(name, main.get("env"))
        known = (*CONTAINER_SHORT, "name", "env")
        left = {k: v for k, v in main.value.items() if k not in known}
        if set(main.get("resources").value or {}) <= {"requests", "limits"}:
            left.pop("resources", None)
        if port:
            self._port(at, main, port, left)
        for word in POD_SHORT:
            self.put(f"{at}.{word}", template.get("spec", word))
        short = self._volumes(name, template, main)
        left["volumeMounts"] = [m for m in left.get("volumeMounts", []) if m["name"] not in short]
        self._template(name, template, main, left, short)

    def _volumes(self, role: str, template: Given, main: Given) -> set[str]:
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
                    self.put(f"spec.roles.{role}.volumes.{name}", volume, mount | source)
                    found.add(name)
        return found

    def _resources(self, at: str, given: Given) -> None:
        """Requests and limits; a limit without a request is the request too, as in Kubernetes.

        https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/
        """
        limits = given.get("limits").value or {}
        requests = limits | (given.get("requests").value or {})
        if set(given.value or {}) - {"requests", "limits"}:
            return
        if requests == limits:
            self.put(f"{at}.resources", given.get("limits"), limits)
        else:
            both = {"requests": requests, "limits": limits}
            self.put(f"{at}.resources", given, {k: v for k, v in both.items() if v})

    def _env(self, role: str, env: Given) -> None:
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
        self.put(f"spec.roles.{role}.env", env, found)

    def _port(self, at: str, main: Given, name: str, left: dict[str, Any]) -> None:
        """The operator's port under our name; what else is said of it stays in the template."""
        for port in main.get("ports").items():
            if port.value.get("name") == name:
                self.put(f"{at}.port", port.get("containerPort"))
                if set(port.value) <= {"name", "containerPort", "protocol"}:
                    left["ports"] = [p for p in left["ports"] if p is not port.value]

    def _template(
        self, role: str, template: Given, main: Given, left: dict[str, Any], short: set[str]
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
        self.put(f"spec.roles.{role}.template", template, found)

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

    def _origin(self, path: Path) -> Path | None:
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

    def _move(self, old: Path, new: Path, *, keep: bool) -> None:
        for path in [path for path in self.origins if path[: len(old)] == old]:
            origin = self.origins.pop(path)
            if keep:
                self.origins[(*new, *path[len(old) :])] = origin


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of custom resource in one version.

    Attributes:
        spec: the JSON Schema of its `spec`.
        convert: writes the TrainingJob; called with a resource that holds against the schema.
    """

    spec: Mapping[str, Any]
    convert: Callable[[Draft], None]


VOLUME_SHORT = {
    "persistentVolumeClaim": ("claimName", "pvc"),
    "configMap": ("name", "configMap"),
    "secret": ("secretName", "secret"),
    "hostPath": ("path", "hostPath"),
}
"""By the field of a volume: what alone may stand in it, and the short form of that."""


def short_volume(volume: Mapping[str, Any]) -> dict[str, Any]:
    """Return a volume as a role has it, but for its mount; {} where it has no short form."""
    sources = [name for name in volume if name != "name"]
    if len(sources) != 1:
        return {}
    (name,) = sources
    if not isinstance(volume[name], dict):
        return {}
    if name in VOLUME_SHORT and set(volume[name]) == {VOLUME_SHORT[name][0]}:
        inner, short = VOLUME_SHORT[name]
        return {short: volume[name][inner]}
    whole = {"nfs": {"server", "path"}, "emptyDir": {"medium", "sizeLimit"}}
    if (
        name in whole
        and set(volume[name]) <= whole[name]
        and volume[name].get("medium") in (None, "Memory")
    ):
        return {name: volume[name]}
    return {}


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


def _paths(value: Any, path: Path) -> Iterator[Path]:
    yield path
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _paths(inner, (*path, name))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _paths(inner, (*path, i))


def without_nulls(value: Any) -> Any:
    """Return a custom resource without its nulls, which the API server takes for nothing at all."""
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
