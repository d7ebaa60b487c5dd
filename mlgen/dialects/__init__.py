"""Dialects convert the custom resources of operators to TrainingJobs, one module per operator.

A dialect module defines `DIALECT`, a `Dialect`, with a subclass of `Builder` for each kind. It does
not handle Kubernetes objects or YAML text: it reads values of the custom resource, and writes
values of the TrainingJob. Modules with a leading underscore are helpers.
"""

import pkgutil
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import cache, lru_cache
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mlgen.documents import files
from mlgen.documents.document import Document
from mlgen.documents.files import (
    CHARTS,
    HELM_HINT,
    KUSTOMIZATIONS,
    KUSTOMIZE_HINT,
    Context,
    Text,
    bounded,
)
from mlgen.documents.reader import read_documents
from mlgen.input_limits import TEXT_BYTES
from mlgen.jobfile.model import API_VERSION, KIND
from mlgen.jobfile.validation import invalid_templates, require_valid
from mlgen.kubernetes.objects import group_of, without_nulls
from mlgen.kubernetes.values import sequence, strings, value_at
from mlgen.problems import Collector, MlgenError, Place, Problem, described, did_you_mean, one_of

if TYPE_CHECKING:
    from mlgen.dialects._builder import Dialect
    from mlgen.kubernetes.versions import KubeVersion

T = TypeVar("T")

GROUP = group_of(API_VERSION)

KUSTOMIZE_GROUP = "kustomize.config.k8s.io"
"""The API group of files that kustomize reads. Flux uses kustomize.toolkit.fluxcd.io."""

MERGED_GROUPS = ("trainer.kubeflow.org",)
"""The API groups of custom resources that refer to other documents: see `Dialect.find`."""

HEADLESS = re.compile(r"""\bclusterIP["']?\s*:\s*["']?None\b""")
"""A headless Service in a text. A job renders a Service of its own name."""

TEMPLATE = re.compile(r"(?m)^[ \t]*\{\{|[:-][ \t]+\{\{")
"""An expression of a template, such as `{{ .Values.image }}`, where YAML has a value."""

WRAPPERS = {("workload.codeflare.dev/v1beta2", "AppWrapper"): ""}
"""The objects that contain other objects."""

SERVICE = ("v1", "Service")

COMMON_KINDS = ("Job",)
"""Kinds of operators that other API groups also use."""


def names() -> list[str]:
    """Return the names of all dialects, sorted, without importing them."""
    modules = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(name for name in modules if not name.startswith("_"))


def get(name: str) -> "Dialect":
    """Import a dialect by name."""
    dialect: Dialect = import_module(f"{__name__}.{name}").DIALECT
    return dialect


@cache
def kinds() -> dict[tuple[str, str], str]:
    """Return the dialect of every kind, by apiVersion and kind."""
    return {key: name for name in names() for key in get(name).kinds}


@cache
def schema(version: str, name: str) -> dict[str, Any]:
    """Return the JSON Schema of the custom resources of a kind. Callers must not change it.

    Args:
        version: the apiVersion.
        name: the kind.
    """
    from mlgen.dialects._schemas import resource_schema

    return resource_schema(kinds()[version, name], version, name)


def editor_schema(name: str, kube_version: "KubeVersion") -> dict[str, Any]:
    """Return the JSON Schema of a kind for editors, with the pods of a version of Kubernetes.

    Args:
        name: the kind, case-insensitive, such as `pytorchjob`, or with its apiVersion:
            `kubeflow.org/v1/MPIJob`. The default is the newest version with that kind.
        kube_version: of the pods.

    Raises:
        LookupError: the kind is unknown. The message suggests similar kinds.
    """
    from mlgen.dialects import _schemas

    key = _schemas.newest(name, kinds())
    return _schemas.editor_schema(kinds()[key], *key, kube_version)


@cache
def groups() -> frozenset[str]:
    """Return every API group of a kind of job. Unknown kinds in them may be misspelled jobs."""
    return frozenset([*_own_groups(), *(group_of(version) for version, _ in _known())])


@cache
def version_line() -> str:
    """Return a regular expression for a line with the apiVersion of a job, in YAML or JSON."""
    names = "|".join(map(re.escape, sorted(groups())))
    return rf"""(?m)^(?: {{0,4}}- |\{{ ?)?["']?apiVersion["']?\s*:\s*["']?(?:{names})/"""


def is_job_file(text: Text) -> bool:
    """Return whether a text contains a job, and is not a template such as those of Helm."""
    if not re.search(version_line(), text.text):
        return False
    if not TEMPLATE.search(text.text):
        return True
    problems = [
        each.problems if isinstance(each, Document) else each for each in read_documents(text)
    ]
    return all(problem.code != "not-yaml" for problem in chain(*problems))


@cache
def _own_groups() -> frozenset[str]:
    """Return the API groups that only mlgen or one operator uses."""
    return frozenset([GROUP, *(group for name in names() for group in get(name).groups)])


def documents(text: Text) -> Iterator[Document | list[Problem]]:
    """Yield the documents of a text. A document that cannot be read is replaced by its problems.

    A List that contains a job, as `kubectl get` prints it, is split into its items, and an
    AppWrapper into its objects.
    """
    for part in pieces(text):
        for document in read_documents(part):
            items = _list_items(document) if isinstance(document, Document) else []
            if isinstance(document, list):
                yield document
            elif any(map(_is_job, items)):
                for item in document.items("items"):
                    yield from _objects(item)
            else:
                yield from _objects(document.item() if part.item else document)


def _objects(document: Document) -> Iterable[Document | list[Problem]]:
    """Return the objects in an AppWrapper, or any other document itself."""
    key = _key(document) if isinstance(document.data, dict) else ("", "")
    if key not in WRAPPERS:
        return [document]
    from mlgen.dialects._wrapper import unwrapped

    return unwrapped(document, *key)


def runtimes(names: Collection[str]) -> list[Text]:
    """Return the texts of --runtime: files, or the runtimes that a version of Trainer publishes.

    A file that cannot be read, or contains no runtime, is returned with a problem.
    """
    if not names:
        return []
    from mlgen.dialects.trainer import job as known
    from mlgen.documents.files import texts

    found: list[Text] = []
    for name in names:
        published = known.published_texts(name)
        for text in published or texts((name,)):
            if published or text.problem or any(map(is_part, _readable(text))):
                found.append(text)
                continue
            message, kinds = "contains no runtime of Trainer", " or ".join(known.KINDS)
            hint = f"pass a file with a {kinds}, or a version: {', '.join(known.versions())}"
            problem = Problem((), message, "bad-value", hint, place=Place(text.name, 0))
            found.append(replace(text, problem=problem))
    return found


def in_context(texts: Iterable[Text], more: Iterable[Text] = ()) -> Iterator[Text]:
    """Yield texts, with all documents that their custom resources may refer to, unless known.

    The texts are read as they are needed, up to the first that refers to others.

    Args:
        texts: the texts.
        more: texts that are not rendered, and come after the others.
    """
    merged, more = re.compile("|".join(map(re.escape, MERGED_GROUPS))), list(more)

    def is_related(text: Text) -> bool:
        return bool(merged.search(text.text) or HEADLESS.search(text.text))

    yield from (text for text in more if text.problem)
    texts = iter(texts)
    for text in texts:
        if text.context or not is_related(text):
            yield text
            continue
        every = [text, *bounded(texts, TEXT_BYTES)]
        context = context_of(each for each in (*every, *more) if merged.search(each.text))
        context = context._replace(jobs=jobs_with_services(every))
        for each in every:
            yield replace(each, context=context) if is_related(each) else each


def jobs_with_services(texts: Collection[Text]) -> frozenset[tuple[str, str]]:
    """Return the namespaces and names of jobs with the name of a headless Service in the texts."""
    readable = [each for text in texts if HEADLESS.search(text.text) for each in _readable(text)]
    services = {name for each in readable if _key(each) == SERVICE for _, name in _named(each)}
    jobs = (
        named
        for text in texts
        if any(name in text.text for name in services)
        for each in _readable(text)
        if _is_job(each.data)
        for named in _named(each)
    )
    return frozenset(named for named in jobs if named[1] in services)


def _named(document: Document) -> Iterator[tuple[str, str]]:
    """Yield the namespace and the name of an object, unless mlgen adds a suffix to its name."""
    metadata, spec = document.data.get("metadata"), document.data.get("spec")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        return
    if "nameSuffix" not in metadata and not (isinstance(spec, dict) and "matrix" in spec):
        yield str(metadata.get("namespace") or ""), metadata["name"]


def context_of(texts: Iterable[Text]) -> Context:
    """Return the documents of texts that are merged into custom resources."""
    names, used, found = set[str](), set[str](), list[Text]()
    for text in texts:
        for document in _readable(text):
            if is_part(document):
                names.update(strings(document.data.get("metadata")))
                found.append(text)
            else:
                used.update(strings(document.data))
    return Context(tuple(dict.fromkeys(found)), frozenset(names & used))


def pieces(text: Text) -> Iterator[Text]:
    """Yield the parts of a text that can be read separately: a List of jobs is split into items."""
    if "\nitems:\n" not in text.text or text.item:
        yield text
        return
    from mlgen.dialects._wrapper import list_items

    for part in files.documents(text):
        yield from list_items(part, _known()) or [part]


def each(
    texts: Iterable[Text],
    process: Callable[[Document], tuple[T, list[Problem]]],
    collector: Collector,
) -> Iterator[T]:
    """Process every document that can be read, and yield the result.

    Args:
        texts: contain the documents.
        process: returns the result of a document and warnings, or raises `MlgenError`.
        collector: collects all problems, document by document.
    """
    for document in chain.from_iterable(map(documents, in_context(texts))):
        if isinstance(document, list):
            collector.extend(document)
            continue
        with collector.catch():
            result, warnings = process(document)
            collector.extend(warnings)
            yield result


def is_foreign(version: str, name: str) -> bool:
    """Return True if an object of this apiVersion and kind is not a job or a misspelled job."""
    return (version, name) not in _known() and _misspelt(version, name) is None


def native(document: Document) -> tuple[Document | None, list[Problem]]:
    """Return the equivalent TrainingJob of a document, or None if the document is not a job.

    Args:
        document: a TrainingJob, an operator's custom resource, or any other Kubernetes object.

    Returns:
        The TrainingJob, and warnings about differences from the operator.

    Raises:
        MlgenError: the document is not a Kubernetes object, has an unknown kind or version of an
            operator, or is a custom resource that cannot be rendered.
    """
    data = document.data
    if not isinstance(data, dict):
        message = f"expected a {KIND} or another Kubernetes object, which is a mapping"
        hint = f"start with apiVersion: {API_VERSION} and kind: {KIND}"
        raise MlgenError([document.located(Problem((), message, "unknown-kind", hint))])
    version, name = _key(document)
    if (version, name) == (API_VERSION, KIND):
        return document, []
    for field in ("kind", "apiVersion"):
        if not isinstance(data.get(field), str):
            raise MlgenError([document.located(_untyped(document, field))])
    ambiguous = [each for each in document.problems if each.path in (("kind",), ("apiVersion",))]
    if ambiguous:
        raise MlgenError(ambiguous)
    if is_part(document):
        return None, _unused(document)
    if (version, name) in kinds():
        return _converted(document)
    problem = _misspelt(version, name) or _of_kustomize(version, name)
    if problem:
        raise MlgenError([document.located(problem)])
    return None, []


def _unused(document: Document) -> list[Problem]:
    """Return a warning if no custom resource in the input refers to an object that is a part."""
    name, own = document.data["kind"], value_at(document.data, ("metadata", "name"))
    if document.context and isinstance(own, str) and own in document.context.names:
        return []
    message = f"the {name} is not rendered: no job in the input refers to it"
    hint = "pass it together with its jobs, or pass --runtime FILE"
    return [document.located(Problem(("kind",), message, "differs", hint, warning=True))]


def _untyped(document: Document, field: str) -> Problem:
    """Return the problem of a document without apiVersion or kind, such as a chart's values.

    Args:
        document: a mapping.
        field: the field that is missing or not a string.
    """
    file = Path(document.place(()).file).name
    hint = f"for a job, write apiVersion: {API_VERSION} and kind: {KIND}"
    if file in CHARTS:
        hint = HELM_HINT
    elif file in KUSTOMIZATIONS:
        hint = KUSTOMIZE_HINT
    value = document.data.get(field)
    message = f'field "{field}" is missing'
    if value is not None:
        message = f"expected a string, got {described(value, document.texts.get((field,)))}"
    return Problem((field,), message, "unknown-kind", hint)


def _of_kustomize(version: str, name: str) -> Problem | None:
    """Return the problem of a kustomize input file, which the API server rejects, or None."""
    if group_of(version) != KUSTOMIZE_GROUP:
        return None
    message = f"a {name} is an input of kustomize, and is rejected by the API server"
    return Problem(("kind",), message, "unknown-kind", KUSTOMIZE_HINT)


def _list_items(document: Document) -> list[Any]:
    """Return the items of a Kubernetes List; [] for any other document."""
    data = document.data
    if not isinstance(data, dict) or (data.get("apiVersion"), data.get("kind")) != ("v1", "List"):
        return []
    return sequence(data, "items")


def _is_job(item: Any) -> bool:
    """Return True for a TrainingJob or a custom resource of a dialect."""
    key = (item.get("apiVersion"), item.get("kind")) if isinstance(item, dict) else ()
    return all(isinstance(part, str) for part in key) and key in _known()


@cache
def _known() -> dict[tuple[str, str], str]:
    """Return every kind of job, by its apiVersion and name."""
    return {**kinds(), **WRAPPERS, (API_VERSION, KIND): ""}


def _converted(document: Document) -> tuple[Document, list[Problem]]:
    """Return the TrainingJob of a custom resource, and warnings."""
    from mlgen.dialects._builder import Field

    collector, merged = Collector(), None
    dialect = get(kinds()[_key(document)])
    document = _valid(document, collector)
    if dialect.find and dialect.merged:
        part = dialect.find(document, _parts(document, dialect.parts), collector)
        merged = dialect.merged(document, _valid(part, collector), collector)
        collector.raise_errors()
        document = _valid(merged.document, collector)
        dialect = get(kinds()[_key(document)])
    builder = dialect.kinds[_key(document)](Field(document.data))
    if not builder.collector.has_errors:
        builder.write()
        if merged:
            merged.finish(builder)
    collector.extend(map(document.located, builder.collector.problems))
    collector.raise_errors()
    return builder.finish(document), list(collector.problems)


def _valid(document: Document, collector: Collector) -> Document:
    """Return a custom resource without duplicate keys and null fields.

    Raises:
        MlgenError: it does not conform to the schema.
    """
    document, duplicates = _without_duplicates(document)
    document = replace(document, data=without_nulls(document.data))
    collector.extend(duplicates)
    further = invalid_templates(document)
    with collector.catch():
        require_valid(document, schema(*_key(document)), further)
    collector.raise_errors()
    return document


def is_part(document: Document) -> bool:
    """Return True for an object that is merged into custom resources, and not rendered itself."""
    key = _key(document)
    if group_of(key[0]) not in MERGED_GROUPS:
        return False
    return key in kinds() and key in get(kinds()[key]).parts


def _parts(document: Document, keys: Collection[tuple[str, str]]) -> Iterator[Document]:
    """Yield the documents that a custom resource may refer to. They may be invalid."""
    texts = document.context.texts if document.context else ()
    for each in chain.from_iterable(map(_readable_cached, texts)):
        if _key(each) in keys:
            yield each


def _key(document: Document) -> tuple[str, str]:
    """Return the apiVersion and kind of a mapping."""
    return str(document.data.get("apiVersion")), str(document.data.get("kind"))


def _readable(text: Text) -> list[Document]:
    """Return the objects of a text that can be read."""
    every = documents(text)
    return [each for each in every if isinstance(each, Document) and isinstance(each.data, dict)]


_readable_cached = lru_cache(maxsize=1024)(_readable)
"""The same, cached: callers must not change the result."""


def _without_duplicates(document: Document) -> tuple[Document, list[Problem]]:
    """Return a custom resource without its duplicate keys, and a warning for each of them.

    kubectl silently uses the last value of a key.
    """
    hint = "the last value takes effect; remove the others"
    duplicates = [item for item in document.problems if item.code == "duplicate-key"]
    problems = [item for item in document.problems if item.code != "duplicate-key"]
    warnings = [replace(problem, hint=hint, warning=True) for problem in duplicates]
    return replace(document, problems=problems), warnings


@lru_cache(maxsize=256)
def _misspelt(version: str, name: str) -> Problem | None:
    """Return the problem of an unknown kind that looks like a job, or None for other objects."""
    group = group_of(version)
    versions = [other for other, kind in _known() if kind == name]
    same_group = [other for other in versions if group_of(other) == group]
    if same_group or (versions and name not in COMMON_KINDS):
        message = f"unknown version {version} of {name}"
        hint = one_of(same_group or versions)
        if group == group_of(API_VERSION) and name != KIND:
            hint = f"write kind: {KIND} for a job file; for the operator's {name}, {hint}"
        return Problem(("apiVersion",), message, "unknown-kind", hint)
    kinds = list(dict.fromkeys(kind for other, kind in _known() if group_of(other) == group))
    similar = did_you_mean(name, kinds, cutoff=0.7)
    if group in _own_groups() or (kinds and (similar or name.endswith("Job"))):
        hint = similar or (one_of(kinds) if kinds else "")
        message = f"{version} {name} is not supported, and runs only with its operator"
        return Problem(("kind",), message, "unknown-kind", hint)
    return None
