"""Builds a TrainingJob document from a custom resource, for all dialects.

A dialect reads `Field`s and puts them into a `Builder`, which records the origin of each.
Problems of the job are therefore reported at the values of the custom resource.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from shlex import quote
from typing import Any, NamedTuple

from mlgen.dialects._schemas import COMMON, read
from mlgen.documents.document import UNWRITTEN, Document, Mark
from mlgen.jobfile.model import API_VERSION, KILLED_EXIT_CODES, KIND, is_gpu
from mlgen.kubernetes.names import DNS_1035_WORDS, KUEUE_QUEUE, LABEL_MAX, LAST_APPLIED
from mlgen.kubernetes.objects import INT32_MAX
from mlgen.kubernetes.values import value_at
from mlgen.problems import Code, Collector, Problem, ValuePath


class Field(NamedTuple):
    """A value of a custom resource and its path there. It is false if the value is None (unset)."""

    value: Any
    path: ValuePath = ()

    def __bool__(self) -> bool:
        return self.value is not None

    def get(self, *steps: str | int) -> "Field":
        """Return a value within this one. Its `value` is None if it does not exist."""
        return Field(value_at(self.value, steps), (*self.path, *steps))

    def or_unset(self) -> "Field":
        """Return this value. An empty text counts as not set."""
        return Field(None, self.path) if self.value == "" else self

    def fields(self) -> Iterator[tuple[str, "Field"]]:
        """Yield the fields of a mapping with their names. None counts as empty."""
        return ((name, self.get(name)) for name in self.value or {})

    def items(self) -> Iterator["Field"]:
        """Yield the items of a list. None counts as empty."""
        return (self.get(i) for i in range(len(self.value or [])))


NOTHING = Field(None)
"""A value that is not set, at no path."""


SHORT_VOLUMES: dict[str, dict[str, str]] = read(COMMON)["volumes"]
"""By type of volume: the fields of its short form in the job file, by field in Kubernetes.

If the name of the first field is another one, that field is required, and a volume without other
fields has a short form that is only its value, such as `pvc`.
"""


def short_volume(volume: Mapping[str, Any]) -> dict[str, Any]:
    """Return the short form of a volume, without its mount; {} if it has none.

    A volume of one type has a short form if the form holds all of its fields.
    """
    types = [name for name in volume if name != "name"]
    if len(types) != 1 or not isinstance(volume[types[0]], dict):
        return {}
    (name,) = types
    fields, short = volume[name], SHORT_VOLUMES.get(name, {})
    first = next(iter(short), "")
    is_named = short.get(first) != first
    if is_named and fields.keys() == {first} and isinstance(fields[first], str):
        return {short[first]: fields[first]}
    fits = len(short) > 1 and fields.keys() <= short.keys() and (first in fields or not is_named)
    return {name: fields} if fits and fields.get("medium") in (None, "Memory") else {}


ENDLESS = INT32_MAX
"""The largest `backoffLimit`, for operators that restart replicas without limit."""

CONTAINER_FIELDS = ("image", "imagePullPolicy", "command", "args", "workingDir", "securityContext")
POD_FIELDS = (
    "serviceAccountName",
    "nodeSelector",
    "tolerations",
    "affinity",
    "topologySpreadConstraints",
)
"""Fields of containers and pods that exist in a role with the same names."""

ORDER: list[str] = read(COMMON)["order"]
"""The order of fields of `spec` and of a role, the most important first."""

PER_ROLE = ("replicas", "restartScope", "backoffLimit")
"""Fields that are never shared by all roles."""


QUEUE = ("spec", "scheduling", "queue")


class Builder:
    """A TrainingJob that is built from a custom resource. Each kind of resource has a subclass.

    Attributes:
        resource: the custom resource.
        data: the TrainingJob.
        origins: paths in the custom resource, by path in the TrainingJob. The same relative path
            below both leads to the same value.
        collector: collects errors, and differences from the operator as warnings.
    """

    def __init__(self, resource: Field) -> None:
        self.resource = resource
        self.data: dict[str, Any] = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {},
            "spec": {},
        }
        self.origins: dict[ValuePath, ValuePath] = {(name,): (name,) for name in self.data}
        self.collector = Collector()
        self._write_metadata()

    def _write_metadata(self) -> None:
        """Write the metadata, and `scheduling` with the queue from Kueue's label."""
        metadata = self.resource.get("metadata")
        name, generated = metadata.get("name"), metadata.get("generateName")
        if not name and generated:
            fixed = generated.value.rstrip("-.")
            self.put_metadata("name", generated, fixed)
            self.warn(
                generated,
                f"mlgen adds no random suffix to generateName: each job gets the name {fixed}",
                "to run several jobs, set a different metadata.name for each",
            )
        elif not name:
            self.refuse(
                metadata, 'field "name" is missing', "give the job a name", code="missing-field"
            )
        self.put_metadata("name", name)
        self.put_metadata("namespace", metadata.get("namespace"))
        queue = metadata.get("labels", KUEUE_QUEUE)
        if queue.value:
            self.put(("scheduling", "gang"), queue, "kueue")
            self.put(("scheduling", "queue"), queue)
        for field_name, removed in (("labels", KUEUE_QUEUE), ("annotations", LAST_APPLIED)):
            source = metadata.get(field_name)
            kept = {k: v for k, v in without_own(source.value).items() if k != removed}
            self.put_metadata(field_name, source, kept)

    def write(self) -> None:
        """Write the TrainingJob. Subclasses override this."""

    @property
    def name(self) -> str:
        """The job's name."""
        return str(self.data["metadata"].get("name", ""))

    @property
    def kind(self) -> Field:
        """The kind of the custom resource, the origin of values that follow from it."""
        return self.resource.get("kind")

    @property
    def spec(self) -> Field:
        """The `spec` of the custom resource."""
        return self.resource.get("spec")

    @property
    def namespace_option(self) -> str:
        """The option of kubectl and mlgen for the namespace of the job; "" for none."""
        return namespace_option(self.resource.get("metadata", "namespace").value)

    @property
    def gang(self) -> str:
        """The gang scheduler of the TrainingJob; "" if not written yet."""
        return str(self.data["spec"].get("scheduling", {}).get("gang", ""))

    def annotation(self, name: str) -> Field:
        """Return an annotation of the custom resource."""
        return self.resource.get("metadata", "annotations", name)

    @property
    def roles(self) -> dict[str, dict[str, Any]]:
        """The roles that have been written so far, by name."""
        roles: dict[str, dict[str, Any]] = self.data["spec"].get("roles", {})
        return roles

    def put(self, path: ValuePath, source: Field, value: Any = None) -> None:
        """Write a value below `spec` of the TrainingJob, unless it is None or empty.

        Args:
            path: below `spec`, such as ("runPolicy", "suspend").
            source: its origin.
            value: the value, if it differs from the source's value.
        """
        self._write(("spec", *path), source, value)

    def put_metadata(self, name: str, source: Field, value: Any = None) -> None:
        """Write a field of `metadata`; see `put`."""
        self._write(("metadata", name), source, value)

    def _write(self, path: ValuePath, source: Field, value: Any = None) -> None:
        """Write a value into the TrainingJob, unless it is None or an empty mapping or list."""
        value = source.value if value is None else value
        if value in (None, {}, []):
            return
        target: Any = self.data
        for step in path[:-1]:
            target = target.setdefault(step, {})
        if path == QUEUE and target.get("queue") not in (None, value):
            self.refuse(
                source,
                f"the queue {value} contradicts {KUEUE_QUEUE}: {target['queue']}",
                "keep one of them",
                code="combination",
            )
        target[path[-1]] = value
        self.origins[path] = source.path

    def copy(self, source: Field, at: ValuePath, *names: str, **renamed: str) -> None:
        """Write fields of a mapping that the job file has with the same meaning.

        Args:
            source: the mapping.
            at: the path of the fields below `spec` of the TrainingJob.
            names: the fields with the same name there.
            renamed: the names there of other fields.
        """
        for name, own in {**dict(zip(names, names, strict=True)), **renamed}.items():
            self.put((*at, own), source.get(name))

    def put_framework(self, name: str) -> None:
        """Write the framework, which follows from the kind."""
        self.put(("framework",), self.kind, name)

    def put_manager(self, own: str, source: Field) -> None:
        """Write `managedBy`, unless it is the operator's own name: mlgen replaces the operator."""
        if source.value != own:
            self.put(("runPolicy", "managedBy"), source)

    def refuse_name(self) -> None:
        """Report that the operator rejects the name of the job."""
        source = Field(self.name, self.origins["metadata", "name"])
        self.refuse(
            source,
            f'"{self.name}" is not a valid job name',
            f"use at most {LABEL_MAX} {DNS_1035_WORDS}",
        )

    def restart_together(self, source: Field, scope: str | list[str]) -> None:
        """Write `restartScope`, and count every failure towards its limit, as the operators do.

        No operator ends a job early because of failures at its start, or stops counting old ones.
        """
        self.put(("runPolicy", "restartScope"), source, scope)
        self.put(("runPolicy", "backoffResetSeconds"), source, 0)
        self.put(("runPolicy", "giveUpAfter", "startFailures"), source, 0)

    def always_restarted(self, source: Field, retried: Collection[int]) -> None:
        """Report exit codes that end the operator's job, but restart a gang here.

        Args:
            source: the rules for exit codes.
            retried: the codes after which the operator restarts all pods.
        """
        codes = " or ".join(str(code) for code in KILLED_EXIT_CODES if code not in retried)
        if codes:
            self.warn(
                source,
                f"the operator does not restart all pods after exit code {codes}; mlgen does, "
                "because the container may have been killed",
            )

    def refuse(
        self, source: Field, message: str, hint: str = "", *, code: Code = "refused"
    ) -> None:
        """Report an error: the operator rejects a value, or mlgen cannot render it.

        Nothing is reported if the value is not set; likewise in `warn`.
        """
        if source:
            self.collector.add(Problem(source.path, message, code, hint))

    def warn_of_gang(self, source: Field, owner: str, hint: str) -> None:
        """Warn that a gang has no known scheduler.

        Args:
            source: what requests the gang.
            owner: whose configuration names the scheduler.
            hint: how to name it.
        """
        self.warn(
            source,
            f"gang scheduling is not rendered: {owner} configuration names the scheduler, "
            "but this resource does not",
            hint,
        )

    def refuse_both(self, source: Field, *names: str, hint: str = "remove one of them") -> None:
        """Report a value that must not be set together with others.

        Args:
            source: the value.
            names: of all of these values.
            hint: which of them to remove.
        """
        self.refuse(source, f"{' and '.join(names)} are mutually exclusive", hint)

    def warn(self, source: Field, message: str, hint: str = "", *, code: Code = "differs") -> None:
        """Report a warning: the operator does something else with a value than mlgen."""
        if source:
            self.collector.add(Problem(source.path, message, code, hint, warning=True))

    def role(self, name: str, template: Field, main: Field, port: str | None = None) -> None:
        """Write a role. Fields of its pod template without a role field are kept in `template`.

        Args:
            name: the role's name.
            template: its PodTemplateSpec.
            main: the training container in that template.
            port: the operator's name of the container port that peers connect to.
        """
        path = ("roles", name)
        self.add_role(name, template.path[:-1])
        self.put((*path, "mainContainer"), main.get("name"))
        self.copy(main, path, *CONTAINER_FIELDS)
        self._put_resources(path, main.get("resources"))
        self._put_env(path, main.get("env"))
        for item in main.get("ports").items():
            if port and item.value.get("name") == port:
                self.put((*path, "port"), item.get("containerPort"))
        self.copy(template.get("spec"), path, *POD_FIELDS)
        self._put_template(path, template, main, self._put_volumes(path, template, main))

    def add_role(self, name: str, origin: ValuePath) -> None:
        """Write a role without fields, with the path in the custom resource that it is from."""
        self.data["spec"].setdefault("roles", {})[name] = {}
        self.origins["spec", "roles", name] = origin

    def _put_volumes(self, role: ValuePath, template: Field, main: Field) -> set[str]:
        """Write the volumes that have a short form, and return their names.

        A volume has one only if it is mounted once, by the training container.
        """
        pod = template.get("spec")
        mounted_elsewhere = [
            mount["name"]
            for field_name in ("containers", "initContainers")
            for container in pod.get(field_name).items()
            if container.path != main.path
            for mount in container.value.get("volumeMounts", [])
        ]
        short = set()
        for volume in pod.get("volumes").items():
            name = volume.value["name"]
            mounts = [m for m in main.get("volumeMounts").items() if m.value["name"] == name]
            source = short_volume(volume.value)
            if source and len(mounts) == 1 and name not in mounted_elsewhere:
                mount = {k: v for k, v in mounts[0].value.items() if k != "name"}
                if set(mount) <= {"mountPath", "subPath", "readOnly"}:
                    self.put((*role, "volumes", name), volume, mount | source)
                    short.add(name)
        return short

    def _put_resources(self, role: ValuePath, resources: Field) -> None:
        """Write requests and limits. As in Kubernetes, a limit is the default of its request.

        https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/
        """
        if set(resources.value or {}) - {"requests", "limits"}:
            return
        limits = resources.get("limits").value or {}
        requests = limits | (resources.get("requests").value or {})
        if requests == limits:
            self.put((*role, "resources"), resources.get("limits"), limits)
        else:
            both = {"requests": requests, "limits": limits}
            self.put((*role, "resources"), resources, {k: v for k, v in both.items() if v})

    def _put_env(self, role: ValuePath, env: Field) -> None:
        """Write the variables by name. As in a container, the last of several takes effect."""
        variables: dict[str, Any] = {}
        for item in env.items():
            name, reference = item.value["name"], item.get("valueFrom")
            if name in variables:
                self.warn(
                    item.get("name"),
                    f"duplicate variable {name}",
                    "keep one; the last one takes effect",
                )
            value = {"valueFrom": reference.value} if reference else item.value.get("value", "")
            variables[name] = value
            self.origins[("spec", *role, "env", name)] = (
                item.path if reference else item.get("value").path
            )
        self.put((*role, "env"), env, variables)

    def _put_template(self, role: ValuePath, template: Field, main: Field, short: set[str]) -> None:
        """Write the parts of a pod template that have no field in a role.

        Args:
            role: the path of the role.
            template: the PodTemplateSpec.
            main: the training container in it.
            short: the names of volumes that have been written in short form.
        """
        written = {*CONTAINER_FIELDS, "name", "env"}
        if set(main.get("resources").value or {}) <= {"requests", "limits"}:
            written.add("resources")
        own = {k: v for k, v in main.value.items() if k not in written}
        own["volumeMounts"] = [m for m in own.get("volumeMounts", []) if m["name"] not in short]
        own = {k: v for k, v in own.items() if v not in ([], {})}
        metadata, spec = template.get("metadata"), template.get("spec")
        containers = [item for item in spec.get("containers").items() if item.path != main.path]
        if own:
            containers.insert(0, Field({"name": main.value["name"], **own}, main.path))
        for i, container in enumerate(containers):
            self.origins[("spec", *role, "template", "spec", "containers", i)] = container.path
        written = {*POD_FIELDS, "restartPolicy", "containers", "volumes"}
        rest = {k: v for k, v in spec.value.items() if k not in written}
        rest["volumes"] = [v for v in spec.value.get("volumes", []) if v["name"] not in short]
        rest["containers"] = [container.value for container in containers]
        kept = {k: metadata.get(k).value for k in ("labels", "annotations")}
        parts = {
            "metadata": {k: v for k, v in kept.items() if v},
            "spec": {k: v for k, v in rest.items() if v or k not in ("volumes", "containers")},
        }
        self.put((*role, "template"), template, {k: v for k, v in parts.items() if v})

    def share_templates(self) -> None:
        """Move the common parts of all roles' templates, down to single labels, to `spec`."""
        roles = self.roles
        templates = [role.get("template", {}) for role in roles.values()]
        shared = _common(templates) if len(templates) > 1 else {}
        if not shared:
            return
        self.data["spec"]["template"] = shared
        self._copy_origins(("spec", "roles", next(iter(roles)), "template"), ("spec", "template"))
        for role in roles.values():
            role["template"] = _without(role["template"], shared)
            if not role["template"]:
                del role["template"]

    def _copy_origins(self, old: ValuePath, new: ValuePath) -> None:
        """Copy the origins of moved values from their old path to the new one."""
        for path in [path for path in self.origins if path[: len(old)] == old]:
            self.origins[(*new, *path[len(old) :])] = self.origins[path]

    def finish(self, document: Document) -> Document:
        """Return the TrainingJob as a document. Its problems refer to lines of the resource.

        Args:
            document: the custom resource.
        """
        self._share_fields()
        spec = self.data["spec"]
        if spec.get("scheduling", {}).get("gang") == "kueue":
            # Kueue suspends and resumes the rendered objects itself.
            policy = spec.get("runPolicy", {})
            policy.pop("suspend", None)
            self.data["spec"] = spec = {k: v for k, v in spec.items() if v is not policy or policy}
        spec["roles"] = {k: _ordered(v) for k, v in spec.get("roles", {}).items()}
        self.data["spec"] = _ordered(spec)
        job = self._mark(self.data, (), None, document.marks)
        marks = Mark(document.marks.place, origin=(), inner=job.inner)
        return Document(self.data, marks, converted=True, text=document.text)

    def _share_fields(self) -> None:
        """Move fields that are equal in all roles to `spec`, if there are several roles."""
        spec, roles = self.data["spec"], self.roles
        first = next(iter(roles), "")
        for name, value in [*roles.get(first, {}).items()] if len(roles) > 1 else ():
            is_equal = all(role.get(name) == value for role in roles.values())
            if is_equal and name in ORDER and name not in PER_ROLE and not _is_own(name, value):
                spec[name] = {**spec[name], **value} if name in spec else value
                for role in roles.values():
                    del role[name]
                self._copy_origins(("spec", "roles", first, name), ("spec", name))

    def _mark(self, value: Any, path: ValuePath, source: Mark | None, root: Mark) -> Mark:
        """Return the mark of a value of the TrainingJob and of everything in it.

        Args:
            value: of the TrainingJob.
            path: of that value.
            source: its mark in the custom resource, if known from the parent's mark.
            root: the marks of the custom resource.
        """
        origin = self.origins.get(path)
        if origin is not None:
            source = root.at(origin)
        items: Iterable[tuple[Any, Any]] = enumerate(value) if isinstance(value, list) else ()
        inner = {
            step: self._mark(item, (*path, step), source and source.inner.get(step), root)
            for step, item in (value.items() if isinstance(value, dict) else items)
        }
        around = source or UNWRITTEN
        if around.origin is not None:  # the resource is merged from several documents
            origin = around.origin
        return Mark(around.place, around.key, around.text, origin, inner)


def _is_own(name: str, value: Any) -> bool:
    """Return True for resources with GPUs, which in `spec` are only for the roles that compute."""
    if name != "resources":
        return False
    return any(map(is_gpu, (*value, *value.get("requests", ()), *value.get("limits", ()))))


def namespace_option(namespace: object) -> str:
    """Return the option of kubectl and mlgen for a namespace; "" for none."""
    return f" -n {quote(str(namespace))}" if namespace else ""


def no_ssh_keys(operator: str, secret: str, option: str) -> tuple[str, str]:
    """Return the warning that a Secret with SSH keys is missing, and the command that creates it.

    Args:
        operator: what creates the Secret instead.
        secret: the name of the Secret.
        option: the option of kubectl for the job's namespace; "" for none.
    """
    message = (
        f"{operator} creates SSH keys; mlgen does not, and pods do not start until the Secret"
        f" {secret} exists"
    )
    hint = f"run once: mlgen ssh-secret{option} {quote(secret)} | kubectl apply -f -"
    return message, hint


MANAGED_BY = {"app.kubernetes.io/managed-by": "mlgen"}
OWN_LABELS = ("mlgen.dev/", "app.kubernetes.io/")


def without_own(labels: Mapping[str, str] | None) -> dict[str, str]:
    """Return the labels of an object without mlgen's own, if mlgen has rendered the object."""
    labels = labels or {}
    is_own = MANAGED_BY.items() <= labels.items() or f"{OWN_LABELS[0]}job" in labels
    return {k: v for k, v in labels.items() if not (is_own and k.startswith(OWN_LABELS))}


def remove(holder: dict[str, Any], field: str, name: str) -> None:
    """Remove an entry of the mapping in a field, and the field if it has no other entry."""
    del holder[field][name]
    if not holder[field]:
        del holder[field]


def _ordered(fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields sorted by `ORDER`, with all other fields at the end."""
    return {name: fields[name] for name in ORDER if name in fields} | fields


def _common(mappings: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the fields that are equal in all of these mappings, recursively."""
    common: dict[str, Any] = {}
    for key, value in mappings[0].items():
        values = [mapping.get(key) for mapping in mappings]
        if all(other == value for other in values):
            common[key] = value
        elif all(isinstance(other, dict) for other in values):
            inner = _common([other for other in values if isinstance(other, dict)])
            common |= {key: inner} if inner else {}
    return common


def _without(mapping: dict[str, Any], shared: dict[str, Any]) -> dict[str, Any]:
    """Return a mapping without the shared fields, recursively."""
    rest: dict[str, Any] = {}
    for key, value in mapping.items():
        if key not in shared:
            rest[key] = value
        elif value != shared[key]:
            rest[key] = _without(value, shared[key])
    return rest


class Dialect(NamedTuple):
    """The custom resources of one operator.

    Attributes:
        kinds: the subclasses of `Builder`, by apiVersion and kind. The custom resource conforms to
            the schema in `schemas/resources`.
        groups: the API groups that only this operator uses. An unknown kind in them is an error.
        find: returns the document of another kind to which a custom resource refers, from all
            documents of the kinds `parts` in the input. It raises `MlgenError` if there is none.
            None if custom resources stand alone.
        merged: returns the resource of another dialect that a custom resource and that document
            are merged to. Both conform to their schemas.
        parts: the kinds that are merged into others, and are not rendered themselves.
    """

    kinds: Mapping[tuple[str, str], Callable[[Field], Builder]]
    groups: tuple[str, ...] = ()
    find: Callable[[Document, Iterable[Document], Collector], Document] | None = None
    merged: "Callable[[Document, Document, Collector], Merged] | None" = None
    parts: frozenset[tuple[str, str]] = frozenset()


class Merged(NamedTuple):
    """A custom resource that was merged from several documents.

    Attributes:
        document: a resource of another dialect. Each value has the place and path of its origin.
        finish: writes the parts of the TrainingJob for which that resource has no field.
    """

    document: Document
    finish: Callable[[Builder], None]
