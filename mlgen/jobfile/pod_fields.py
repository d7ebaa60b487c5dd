"""The parts of a job file or custom resource that are Kubernetes' own → what its API rejects.

These are what `job.schema.json` does not describe in full, such as pod templates, and fields that
depend on the version. The API's schema is loaded only for a document that has one of them.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mlgen.documents.document import Document
from mlgen.kubernetes.versions import KubeVersion
from mlgen.problems import Problem, ValuePath, bounded, did_you_mean

KINDS = {"template": "PodTemplateSpec", "affinity": "Affinity"}
"""The type in Kubernetes' API of a field of a role. A template is a patch."""

LATER_SOURCES = {"fileKeyRef"}
"""The sources of variables that not all supported versions have."""

AMOUNTS = ("requests", "limits")


def problems(document: Document, version: KubeVersion) -> list[Problem]:
    """Return what the API server of a version would reject, each with its place.

    Args:
        document: a TrainingJob, valid or not.
        version: of the cluster.
    """
    every = (
        problem
        for path, fields in _roles(document.data)
        for part in (
            _api_problems(document, path, fields, version),
            _amounts(document, path, fields),
        )
        for problem in part
    )
    return list(bounded(every))


def problems_of_templates(document: Document) -> list[Problem]:
    """Return what the API server would reject in the pod templates of a custom resource.

    Missing fields, and those of other versions, are left to the checks of the job file and of the
    rendered pods: a dialect may have translated them.

    Args:
        document: a custom resource, valid or not, without null fields.
    """
    every = (
        problem
        for path, template in _templates(document.data, ())
        for problem in _violations(document, path, "PodTemplateSpec", template, version=None)
        if problem.code != "missing-field"
    )
    return list(bounded(every))


def _templates(value: Any, path: ValuePath) -> Iterator[tuple[ValuePath, Mapping[str, Any]]]:
    """Yield the pod templates in a value, with their paths: any `template` with containers.

    A template may have the form of a Pod; the API server drops apiVersion and kind.
    """
    items: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        items = value.items()
        spec = value.get("spec")
        if path[-1:] == ("template",) and isinstance(spec, dict) and "containers" in spec:
            yield path, {k: v for k, v in value.items() if k not in ("apiVersion", "kind")}
            return
    elif isinstance(value, list):
        items = enumerate(value)
    for step, inner in items:
        yield from _templates(inner, (*path, step))


def _roles(data: Any) -> Iterator[tuple[ValuePath, Mapping[str, Any]]]:
    """Yield `spec`, whose fields apply to all roles, and each role, with their paths."""
    spec = data.get("spec") if isinstance(data, dict) else None
    if not isinstance(spec, dict):
        return
    yield ("spec",), spec
    roles = spec.get("roles")
    for name, role in roles.items() if isinstance(roles, dict) else ():
        if isinstance(role, dict):
            yield ("spec", "roles", name), role


def _api_problems(
    document: Document, path: ValuePath, fields: Mapping[str, Any], version: KubeVersion
) -> Iterator[Problem]:
    """Yield the violations of Kubernetes' schema in the fields of a role."""
    for steps, kind, value in _kubernetes_values(fields):
        patch = kind == "PodTemplateSpec"
        yield from _violations(document, (*path, *steps), kind, value, version=version, patch=patch)


def _violations(
    document: Document, path: ValuePath, kind: str, value: Any, **options: Any
) -> Iterator[Problem]:
    """Yield the violations of Kubernetes' schema in the value at a path of a document.

    Args:
        document: contains the value.
        path: of the value.
        kind: its type in the API.
        value: what is checked of it.
        options: of `schema.violations`.
    """
    from mlgen.kubernetes.schema import violations

    texts = document.item(*path).texts
    for violation in violations(kind, value, texts=texts, **options):
        from mlgen.documents import overrides

        problem = overrides.in_shell(violation.problem(path), document)
        yield document.located(problem, key=violation.code == "unknown-field")


def _kubernetes_values(fields: Mapping[str, Any]) -> Iterator[tuple[ValuePath, str, Any]]:
    """Yield the values in a role to check: the path of each, its type and itself."""
    for name, kind in KINDS.items():
        if isinstance(fields.get(name), dict):
            yield (name,), kind, fields[name]
    claims = fields.get("claims")
    for name, claim in claims.items() if isinstance(claims, dict) else ():
        if isinstance(claim, dict):
            yield ("claims", name), "PersistentVolumeClaimSpec", claim
    variables = fields.get("env")
    for name, variable in variables.items() if isinstance(variables, dict) else ():
        source = variable.get("valueFrom") if isinstance(variable, dict) else None
        if isinstance(source, dict) and LATER_SOURCES & source.keys():
            yield ("env", name, "valueFrom"), "EnvVarSource", source


def _amounts(document: Document, path: ValuePath, fields: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem for each mapping in `resources` that is neither requests nor limits."""
    resources = fields.get("resources")
    for name, value in resources.items() if isinstance(resources, dict) else ():
        if isinstance(value, dict) and name not in AMOUNTS:
            hint = did_you_mean(name, AMOUNTS) or "write amounts under requests or limits"
            problem = Problem(
                (*path, "resources", name), f'unknown field "{name}"', "unknown-field", hint
            )
            yield document.located(problem, key=True)
