"""Two sets of manifests → the effect of running `kubectl apply` with the second over the first.

The report lists changed fields, changes that the API server will reject, pods that restart, and
fixes.
"""

from base64 import b64encode
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from mlgen import pipeline
from mlgen.checks import foreign
from mlgen.diff.compare import pair
from mlgen.diff.report import entries, report
from mlgen.documents.files import Text
from mlgen.kubernetes.objects import Object, group_kind
from mlgen.kubernetes.values import mapping, sequence
from mlgen.live.job import named, owned
from mlgen.live.kubectl import ClusterError, Kubectl, identity, listed
from mlgen.problems import Collector, MlgenError
from mlgen.result import Options, Output, Result

ALTERNATIVE = "or compare files: mlgen diff OLD NEW"


def files(old: Iterable[Text], new: Iterable[Text], options: Options) -> Output:
    """Compare the manifests of two files or folders. The text is empty without differences.

    Raises:
        MlgenError: one of them cannot be rendered; lists the problems of both.
    """
    results: list[Result] = []
    collector = Collector()
    for texts in (old, new):
        with collector.catch():
            results.append(_rendered(texts, options, new=texts is new))
    collector.raise_errors()
    before, after = map(_objects, results)
    found = list(entries(pair(before, after), options.kube_version))
    return Output(report(found), results[1].warnings)


def cluster(kubectl: Kubectl, name: str | None, new: Iterable[Text], options: Options) -> Output:
    """Compare the objects in the cluster with the manifests of a file or folder.

    Args:
        kubectl: reads the cluster.
        name: a job in the cluster, whose objects are compared; None for those of the manifests.
        new: the texts.
        options: to render them.

    Raises:
        MlgenError: the manifests cannot be rendered, the cluster has no such job, or kubectl is
            missing or fails.
    """
    result = _rendered(new, options, new=True)
    namespace = options.namespace
    if name:
        (job,) = named(kubectl, [name], namespace)
        namespace, before = job.namespace, owned(kubectl, job)
    after = [with_namespace(item, namespace) for item in _objects(result)]
    before = before if name else _fetch(kubectl, after)
    return Output(report(list(entries(pair(before, after), options.kube_version))), result.warnings)


def _rendered(texts: Iterable[Text], options: Options, *, new: bool) -> Result:
    """Render one side. `only_jobs` applies to new jobs, and not to rendered manifests.

    Raises:
        MlgenError: there are errors; lists all problems.
    """
    result = pipeline.render(texts, replace(options, only_jobs=False))
    if new and options.only_jobs and result.jobs and result.others:
        others = (part.document for part in result.others)
        raise MlgenError([each.located(foreign(each.data["kind"])) for each in others])
    return result


def _fetch(kubectl: Kubectl, manifests: Iterable[Object]) -> list[Object]:
    """Return the current objects in the cluster for some manifests; missing ones are omitted.

    Args:
        kubectl: reads the cluster.
        manifests: the manifests. The default namespace is from kubectl's context.

    Raises:
        MlgenError: kubectl is missing or fails.
    """
    identities = [identity(item) for item in manifests]
    if not identities:
        return []
    try:
        words = ("get", "-f", "-", "--ignore-not-found")
        return kubectl.objects(*words, stdin=listed(identities))
    except ClusterError as error:
        (problem,) = error.problems
        hint = f"{problem.hint}, {ALTERNATIVE}"
        raise MlgenError([replace(problem, hint=hint)]) from None


def _objects(result: Result) -> list[Object]:
    """Return all objects that have a name, with the items of each List as separate objects."""
    objects: list[Object] = []
    for item in result.objects:
        objects += sequence(item, "items") if group_kind(item) == ("", "List") else [item]
    return [_as_stored(item) for item in objects if _is_named(item)]


def _is_named(item: Any) -> bool:
    """Return True if a value is an object with a name that can be applied."""
    metadata = mapping(item, "metadata")
    if not metadata.get("name"):
        return False
    names = (metadata["name"], metadata.get("namespace") or "")
    types = (item.get("apiVersion"), item.get("kind"))
    return all(isinstance(word, str) for word in (*names, *types))


def with_namespace(item: Object, namespace: str | None) -> Object:
    """Return an object with the namespace that `kubectl apply -n` would give it."""
    if namespace is None or item["metadata"].get("namespace"):
        return item
    return {**item, "metadata": {**item["metadata"], "namespace": namespace}}


def _as_stored(item: Object) -> Object:
    """Return a Secret as the API server stores it, with `stringData` as base64 in `data`.

    A Secret whose fields have the wrong type is returned unchanged: the API server rejects it.
    """
    texts, data = item.get("stringData"), item.get("data") or {}
    is_secret = group_kind(item) == ("", "Secret")
    if not (is_secret and texts and isinstance(texts, dict) and isinstance(data, dict)):
        return item
    encoded = {key: b64encode(str(text).encode()).decode() for key, text in texts.items()}
    fields = {name: value for name, value in item.items() if name != "stringData"}
    return {**fields, "data": {**data, **encoded}}
