"""Documents → problems that depend on other documents.

Training kinds that mlgen does not render, claims that the pods of a job cannot share, keys that a
Secret or ConfigMap lacks, selectors of pods that a job does not have, and names of objects that
kustomize has renamed. `mlgen/jobfile/operators.py` describes the table of operators' labels.
"""

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from mlgen.checks.job_file import in_job_file
from mlgen.checks.operators import PodLabels, own_labels, pod_labels
from mlgen.checks.pods import NAME, POD, Objects, items_of
from mlgen.checks.volumes import shared_claims
from mlgen.documents.document import Document
from mlgen.jobfile.hints import SELECTED, SELECTORS, is_of_job, operator_of
from mlgen.jobfile.validation import unexcused
from mlgen.kubernetes import references
from mlgen.kubernetes.objects import Object, group_kind, is_built_in
from mlgen.kubernetes.values import mapping, sequence, value_at
from mlgen.launch.scripts import LINE_ENDS
from mlgen.problems import Problem, ValuePath, choice
from mlgen.resources import table
from mlgen.rules import Rules
from mlgen.shell import has_carriage_returns


class JobPods(NamedTuple):
    """The pods of a job, for selectors in other documents.

    Attributes:
        namespace: of the job; "" if it is not set.
        name: the job's name in its file.
        rendered: its name with its hash.
        labels: the labels of its pods that only pods of a job have, for each workload.
    """

    namespace: str
    name: str
    rendered: str
    labels: tuple[tuple[tuple[str, str | None], ...], ...]


def pods_of_job(job: Objects, name: str) -> JobPods:
    """Return the pods of a job.

    Args:
        job: its objects.
        name: its name in its file.
    """
    every = [
        tuple((key, value) for key, value in pod_labels(pods).items() if is_of_job(key))
        for pods in job.distinct_pods
    ]
    namespace = job.items[0]["metadata"].get("namespace") or ""
    return JobPods(namespace, name, job.name, _shared(tuple(dict.fromkeys(every))))


@lru_cache(maxsize=64)
def _shared(labels: tuple[tuple[tuple[str, str | None], ...], ...]) -> Any:
    """Return an equal value that all jobs share, which saves memory."""
    return labels


class Selector(NamedTuple):
    """A selector by labels of an operator.

    Attributes:
        namespace: of its object; "" if it is not set.
        kind: of its object.
        labels: the operator's labels in it, with their values.
        problem: the problem if it selects no pod, without the job and the fix.
    """

    namespace: str
    kind: str
    labels: tuple[tuple[str, str], ...]
    problem: Problem


def selectors_of(path: ValuePath, item: Object) -> Iterator[Selector]:
    """Yield the selectors of pods by labels of an operator in an object.

    Args:
        path: the path of the object in its document.
        item: the object, which may be invalid.
    """
    for steps in SELECTORS.get(str(item.get("kind")), ()):
        for at, selector in _values_at((), item, steps.split("/")):
            pairs = [
                (key, str(value))
                for key, value in _required(selector, plain=item["kind"] == "Service")
                if operator_of(key)
            ]
            if pairs:
                namespace = value_at(item, ("metadata", "namespace")) or ""
                there = Problem((*path, *at), "", "selector", warning=True)
                yield Selector(str(namespace), str(item["kind"]), tuple(pairs), there)


def _values_at(path: ValuePath, value: Any, steps: list[str]) -> Iterator[tuple[ValuePath, Any]]:
    """Yield the values at a path, in which `*` is any item of a list, with their paths."""
    if not steps:
        yield path, value
    elif steps[0] == "*":
        for number, item in enumerate(sequence(value)):
            yield from _values_at((*path, number), item, steps[1:])
    elif isinstance(value, dict) and steps[0] in value:
        yield from _values_at((*path, steps[0]), value[steps[0]], steps[1:])


def _required(selector: Any, *, plain: bool) -> Iterator[tuple[str, Any]]:
    """Yield the labels that a selector requires, with their values."""
    labels = mapping(selector) if plain else mapping(selector, "matchLabels")
    for key, value in labels.items():
        yield str(key), value
    for each in sequence(selector, "matchExpressions"):
        values = value_at(each, ("values", 0))
        if values is not None and each.get("operator") == "In":
            yield str(each.get("key")), values


def unselected(jobs: Iterable[JobPods], selectors: Iterable[Selector]) -> Iterator[Problem]:
    """Yield a problem for each selector by labels that the pods of its job do not have.

    A selector without the name of a job is compared with the first job of its namespace. An unset
    namespace may be any.
    """
    known: dict[tuple[str, str], JobPods] = {}
    for job in jobs:
        for name in (job.name, ""):
            for namespace in (job.namespace, ANY):
                known.setdefault((name, namespace), job)
    for selector in selectors:
        named = next((value for key, value in selector.labels if SELECTED.get(key) == "job"), "")
        spaces = (selector.namespace, "") if selector.namespace else (ANY,)
        found = (known.get((named, namespace)) for namespace in spaces)
        job_pods = next(filter(None, found), None)
        if job_pods and not any(_matches(selector, dict(each)) for each in job_pods.labels):
            yield _unselected(selector, job_pods)


ANY = "*"
"""In place of a namespace: the first job of any namespace."""


def _matches(selector: Selector, labels: PodLabels) -> bool:
    return all(key in labels and labels[key] in (None, value) for key, value in selector.labels)


def _unselected(selector: Selector, job: JobPods) -> Problem:
    own = own_labels(selector.labels, job.rendered, [dict(labels) for labels in job.labels])
    labels = f"labels of {operator_of(selector.labels[0][0])}"
    pods = f"which the pods of {job.name} do not have"
    message = f"the {selector.kind} selects pods by {labels}, {pods}"
    return replace(selector.problem, message=message, hint=f"write {own}")


class Referred(NamedTuple):
    """A reference of a job's pods to another object."""

    job: str
    kind: str
    namespace: str
    name: str
    field: str
    """Its field in the input, as kustomize writes it; "" if the job file does not contain it."""
    problem: Problem
    """The warning that kustomize has renamed the object, without its message and hint."""


def referred_objects(own: Objects, document: Document) -> Iterator[Referred]:
    """Yield each reference of the pods of a job to another object, once for each field."""
    found = set[tuple[str, str, str]]()
    for pods in own.distinct_pods:
        for reference in references.of_pod(pods.template):
            kind, name = reference.kind, reference.name
            if name in own.of_kind(kind) or not reference.path:
                continue
            located = pods.warning((*POD, *reference.path), "", "", "reference")
            path = in_job_file(located, document.data).path
            value = value_at(document.data, path)
            if isinstance(value, dict):  # the short form of a volume
                fields = [field for field, inner in value.items() if inner == name]
                path, value = (*path, *fields), name if len(fields) == 1 else None
            warning = document.located(replace(located.problem, path=path))
            field = _kustomize_path(warning.path, reference.path) if value == name else ""
            if (kind, name, field) in found:
                continue
            found.add((kind, name, field))
            namespace = pods.item["metadata"].get("namespace") or ""
            for each in unexcused(document, [warning]):
                yield Referred(own.name, kind, namespace, name, field, each)


def _kustomize_path(path: ValuePath, in_pod: ValuePath) -> str:
    """Return the path of a reference as kustomize writes it, without the indexes of lists.

    Args:
        path: the path in the input; of a volume as a whole in some custom resources.
        in_pod: the path in the pod's spec.
    """
    if path[-1:] and isinstance(path[-1], int):
        start = next((at for at, step in enumerate(in_pod) if step == path[-2]), len(in_pod))
        path = (*path, *in_pod[start + 2 :])
    return "/".join(step for step in path if isinstance(step, str))


HASH = re.compile("-[bcdfghkmt2456789]{10}$")
"""The suffix of a name that kustomize generates (api/hasher, Encode)."""


def renamed_objects(
    referred: Sequence[Referred],
    present: Iterable[tuple[str, str, str]],
    also: Iterable[tuple[str, str]],
) -> Iterator[Problem]:
    """Yield warnings about references to objects that the input contains under another name.

    kustomize adds the same prefix and suffix to all names, so the name of the job shows them. It
    adds a hash to generated names. Without a hash, an object that others refer to has its name by
    intention.

    Args:
        referred: the references of all jobs.
        present: the kind, namespace and name of each object in the input.
        also: the kind and name of each object that other workloads refer to.
    """
    named = {(kind, name): space for kind, space, name in present}
    plain = {(kind, HASH.sub("", name)): name for kind, name in named}
    used = {*((each.kind, each.name) for each in referred), *also}
    for each in referred:
        if (each.kind, each.name) in named:
            continue
        for start, end in _affixes(each.job):
            other = plain.get((each.kind, f"{start}{each.name}{end}"), each.name)
            space = named.get((each.kind, other), "")
            is_own = HASH.search(other) or (each.kind, other) not in used
            if other != each.name and is_own and space in ("", each.namespace):
                message = f"the input has the {each.kind} {other} instead of {each.name}"
                hint = f"write the name {other} in the job file"
                if each.field:
                    message += "; kustomize has renamed the object, but not this field"
                    rule = f"add {{path: {each.field}}} to nameReference for {each.kind}"
                    hint = f"{rule} in the configurations of the kustomization"
                else:
                    message += ", which the job needs"
                yield replace(each.problem, message=message, hint=hint)
                break


def _affixes(job: str) -> Iterator[tuple[str, str]]:
    """Yield each prefix and suffix that kustomize may have added to the name of a job."""
    cuts = [at for at, character in enumerate(job) if character in "-."]
    for start in (0, *(at + 1 for at in cuts)):
        yield from ((job[:start], job[end:]) for end in (len(job), *reversed(cuts)) if end >= start)


OPERATORS = table("checks/operators")
OTHER = {
    "runs": "its operator",
    "else": "to run without an operator, write a job file: see mlgen frameworks",
}
"""The row of a kind that is not in the table."""


class Facts(NamedTuple):
    """The parts of a document, or of all documents, that rules about other documents need."""

    kinds: tuple[tuple[str, Problem], ...] = ()
    """A warning for each object that requires an operator, with its group and kind."""
    defined: tuple[str, ...] = ()
    """The groups and kinds of its CustomResourceDefinitions."""
    shared: tuple[tuple[str, Problem], ...] = ()
    """One for each claim that several pods of a job use, with its namespace and name."""
    single: tuple[str, ...] = ()
    """The namespaces and names of claims that only the pods of one node can use."""
    uses: tuple[tuple[str, str, Problem], ...] = ()
    """One for each key that a job requires: the Secret or ConfigMap, and the key."""
    keys: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The keys of each Secret and ConfigMap."""
    referred: tuple[Referred, ...] = ()
    """The objects that the pods of a job refer to, without the job's own."""
    named: tuple[tuple[str, str, str], ...] = ()
    """The kind, namespace and name of each object that a pod may refer to."""
    also: tuple[tuple[str, str], ...] = ()
    """The kind and name of each object that pods of other workloads refer to."""
    jobs: tuple[JobPods, ...] = ()
    """The pods of a job."""
    selectors: tuple[Selector, ...] = ()
    """One for each object that selects pods by labels of an operator."""
    broken: tuple[Problem, ...] = ()
    """The problems of its objects that do not depend on other documents."""

    @property
    def problems(self) -> list[Problem]:
        """Problems that may be reported when all documents are known."""
        pairs = [problem for _, problem in self.kinds + self.shared]
        return [*pairs, *(problem for _, _, problem in self.uses), *self.broken]


class Item(NamedTuple):
    """An object of a document that is not a job: its path there, and the object."""

    path: ValuePath
    data: Object


of_items: Rules[Item, Problem] = Rules("object")
of_documents: Rules[Facts, Problem] = Rules("documents")


def across(found: Sequence[Facts]) -> list[Problem]:
    """Return the problems that depend on several documents."""
    every = Facts(*(tuple(chain.from_iterable(column)) for column in zip(*found, strict=True)))
    return [*every.broken, *of_documents.broken_by(every)]


def facts_of_job(job: str, objects: Sequence[Object], document: Document) -> Facts:
    """Return the claims that several pods of a job use, and the objects that its pods require.

    Args:
        job: the name of the job.
        objects: its objects.
        document: its job file.
    """
    own = Objects(job, objects, alike=True)
    claims = (
        (_full_name(name, each.item), document.located(in_job_file(each, document.data)))
        for name, each in shared_claims(own)
    )
    uses = []
    for pods in own.distinct_pods:
        for kind, name, path in _keys(POD, pods.spec):
            key = str(value_at(pods.item, path))
            lack = pods.error(path, f"the {kind} {name} has no key {key}", "", "reference")
            located = document.located(in_job_file(lack, document.data))
            uses.append((f"{kind} {_full_name(name, pods.item)}", key, located))
    return Facts(
        shared=tuple(claims),
        uses=tuple(dict.fromkeys(uses)),
        referred=tuple(referred_objects(own, document)),
        jobs=(pods_of_job(own, document.data["metadata"]["name"]),),
    )


def _full_name(name: str, item: Object) -> str:
    return f"{item['metadata'].get('namespace') or ''}/{name}"


KEY_REFERENCES = {"secretKeyRef": "Secret", "configMapKeyRef": "ConfigMap"}
VOLUMES = {"secret": "Secret", "configMap": "ConfigMap"}


def _keys(path: ValuePath, value: Any) -> Iterator[tuple[str, str, ValuePath]]:
    """Yield the keys that a part of a pod requires: kind and name of the object, and the path."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _keys((*path, number), item)
    if not isinstance(value, dict) or value.get("optional"):
        return
    for field, inner in value.items():
        at = (*path, field)
        if isinstance(inner, dict) and not inner.get("optional"):
            name = str(inner.get("secretName") or inner.get("name"))
            if field in KEY_REFERENCES:
                yield KEY_REFERENCES[field], name, (*at, "key")
            if field in VOLUMES:
                for number in range(len(inner.get("items") or ())):
                    yield VOLUMES[field], name, (*at, "items", number, "key")
        yield from _keys(at, inner)


def facts_of(document: Document) -> Facts:
    """Return the parts of a document without a job that rules about other documents need."""
    lists: dict[str, list[Any]] = {field: [] for field in Facts._fields}
    for path, item in items_of(document.data):
        if isinstance(item, dict):
            broken = of_items.broken_by(Item(path, item))
            lists["broken"] += (document.located(each) for each in broken)
            for selector in selectors_of(path, item):
                there = document.located(selector.problem)
                lists["selectors"].append(selector._replace(problem=there))
            for field, fact in _facts_of_item(path, item):
                is_kind = field == "kinds"
                lists[field].append((fact[0], document.located(fact[1])) if is_kind else fact)
    return Facts(**{field: tuple(values) for field, values in lists.items()})


def _facts_of_item(path: ValuePath, item: Object) -> Iterator[tuple[str, Any]]:
    """Yield the facts of an object, each with its field of `Facts`."""
    spec, metadata = item.get("spec"), item.get("metadata")
    group, kind = group_kind(item)
    if kind == "CustomResourceDefinition" and isinstance(spec, dict):
        yield "defined", f"{spec.get('group')}/{value_at(spec, ('names', 'kind'))}"
    if isinstance(metadata, dict):
        name = _full_name(str(metadata.get("name")), item)
        claim = spec if isinstance(spec, dict) else {}
        is_single = claim.get("accessModes") in (["ReadWriteOnce"], ["ReadWriteOncePod"])
        if kind == "PersistentVolumeClaim" and is_single and "volumeName" not in claim:
            yield "single", name
        if kind in VOLUMES.values():
            parts = (item.get(field) for field in ("data", "stringData", "binaryData"))
            of_item = tuple(str(key) for part in parts if isinstance(part, dict) for key in part)
            yield "keys", (f"{kind} {name}", of_item)
        if references.GROUPS.get(kind) == group:
            named = (kind, str(metadata.get("namespace") or ""), str(metadata.get("name")))
            yield "named", named
    yield from (("also", each) for each in _also(spec))
    is_job = kind.endswith("Job") and not is_built_in(str(item.get("apiVersion")))
    row = OPERATORS.get(f"{group}/{kind}", OTHER if is_job else {})
    if row:
        message = f"mlgen passes the {kind} through unchanged; only {row['runs']} can run it"
        not_run = Problem((*path, "kind"), message, "not-run", row["else"], warning=True)
        yield "kinds", (f"{group}/{kind}", not_run)


def _also(spec: Any) -> list[tuple[str, str]]:
    """Return the kind and name of each object that the pod template of a workload refers to."""
    try:
        return [(each.kind, each.name) for each in references.of_pod(spec["template"])]
    except (AttributeError, KeyError, TypeError):
        return []  # it has no valid pod template


@of_items
def line_ends_of_config_map(item: Item) -> Iterator[Problem]:
    r"""Report scripts from Windows, whose shells read `\r` as a part of the last word of a line.

    wrong:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: a}
        data: {run.sh: "python train.py\r\n"}
    right:
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: a}
        data: {run.sh: "python train.py\n"}
    """
    texts = item.data.get("data") if item.data.get("kind") == "ConfigMap" else None
    for key, text in texts.items() if isinstance(texts, dict) else ():
        if isinstance(text, str) and has_carriage_returns(str(key), text):
            message, hint = LINE_ENDS
            at = (*item.path, "data", key)
            yield Problem(at, message, "launch", hint, warning=True)


@of_items
def not_base64(item: Item) -> Iterator[Problem]:
    """Report values of a Secret that the API server cannot decode.

    wrong:
        apiVersion: v1
        kind: Secret
        metadata: {name: a}
        data: {token: hf_x}
    right:
        apiVersion: v1
        kind: Secret
        metadata: {name: a}
        data: {token: aGZfeA==, other: $TOKEN}
    """
    data = item.data.get("data") if item.data.get("kind") == "Secret" else None
    for key, text in data.items() if isinstance(data, dict) else ():
        is_placeholder = not isinstance(text, str) or set(text) & set("${<")
        try:
            b64decode("" if is_placeholder else "".join(text.split()), validate=True)
        except ValueError:
            message = f"the value of {key} is not base64, so the API server rejects the Secret"
            hint = "write it under stringData instead of data"
            yield Problem((*item.path, "data", key), message, "bad-value", hint)


@of_documents.when("kinds")
def training_kind(facts: Facts) -> Iterator[Problem]:
    """Report objects that train, but that only their operators can run.

    If the definition of the kind is in the input, its operator is assumed to be installed.

    wrong:
        apiVersion: sparkoperator.k8s.io/v1beta2
        kind: SparkApplication
        metadata: {name: a}
    right:
        apiVersion: keda.sh/v1alpha1
        kind: ScaledJob
        metadata: {name: a}
    """
    yield from (warning for kind, warning in facts.kinds if kind not in facts.defined)


@of_documents.when("shared")
def claim_of_one_node(facts: Facts) -> Iterator[Problem]:
    """Report claims in the input that only the pods of one node can use, but several pods do.

    wrong:
        apiVersion: mlgen.dev/v1alpha1
        kind: TrainingJob
        metadata: {name: a}
        spec:
          framework: pytorch
          image: a/a
          command: [torchrun, train.py]
          volumes: {data: {mountPath: /data, pvc: data}}
          roles: {worker: {replicas: 2}}
        ---
        apiVersion: v1
        kind: PersistentVolumeClaim
        metadata: {name: data}
        spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
    right:
        apiVersion: mlgen.dev/v1alpha1
        kind: TrainingJob
        metadata: {name: a}
        spec:
          framework: pytorch
          image: a/a
          command: [torchrun, train.py]
          volumes: {data: {mountPath: /data, pvc: data}}
          roles: {worker: {replicas: 2}}
        ---
        apiVersion: v1
        kind: PersistentVolumeClaim
        metadata: {name: data}
        spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
    """
    single = {*facts.single}
    yield from (warning for claim, warning in facts.shared if claim in single)


@of_documents.when("uses")
def missing_key(facts: Facts) -> Iterator[Problem]:
    """Report keys that a job requires, but the Secret or ConfigMap in the input lacks.

    wrong:
        apiVersion: mlgen.dev/v1alpha1
        kind: TrainingJob
        metadata: {name: a}
        spec:
          framework: pytorch
          image: a/a
          command: [torchrun, train.py]
          env: {LR: {valueFrom: {configMapKeyRef: {name: settings, key: lr}}}}
          roles: {worker: {}}
        ---
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: settings}
        data: {rl: "1"}
    right:
        apiVersion: mlgen.dev/v1alpha1
        kind: TrainingJob
        metadata: {name: a}
        spec:
          framework: pytorch
          image: a/a
          command: [torchrun, train.py]
          env: {LR: {valueFrom: {configMapKeyRef: {name: settings, key: lr}}}}
          roles: {worker: {}}
        ---
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: settings}
        data: {lr: "1"}
    """
    keys = dict(facts.keys)
    for name, key, lack in facts.uses:
        known = keys.get(name)
        if known and key not in known:
            yield replace(lack, hint=choice(key, known))


@of_documents.when("named")
def renamed_object(facts: Facts) -> Iterator[Problem]:
    """Report references to an object that kustomize has renamed in the input.

    kustomize changes only the fields that it knows: https://kubectl.docs.kubernetes.io/references/\
    kustomize/builtins/#field-name-namereference

    wrong:
        apiVersion: mlgen.dev/v1alpha1
        kind: TrainingJob
        metadata: {name: dev-a}
        spec:
          framework: pytorch
          image: a/a
          command: [torchrun, train.py]
          envFrom: [{secretRef: {name: hub}}]
          roles: {worker: {}}
        ---
        apiVersion: v1
        kind: Secret
        metadata: {name: dev-hub}
    right:
        apiVersion: mlgen.dev/v1alpha1
        kind: TrainingJob
        metadata: {name: dev-a}
        spec:
          framework: pytorch
          image: a/a
          command: [torchrun, train.py]
          envFrom: [{secretRef: {name: dev-hub}}]
          roles: {worker: {}}
        ---
        apiVersion: v1
        kind: Secret
        metadata: {name: dev-hub}
    """
    return renamed_objects(facts.referred, facts.named, facts.also)


@of_documents.when("selectors")
def operator_selector(facts: Facts) -> Iterator[Problem]:
    """Report objects that select the pods of a job by labels that only an operator sets.

    wrong:
        apiVersion: mlgen.dev/v1alpha1
        kind: TrainingJob
        metadata: {name: a}
        spec: {framework: pytorch, image: a/a, command: [torchrun, train.py], roles: {worker: {}}}
        ---
        apiVersion: v1
        kind: Service
        metadata: {name: b}
        spec: {selector: {training.kubeflow.org/job-name: a}}
    right:
        apiVersion: mlgen.dev/v1alpha1
        kind: TrainingJob
        metadata: {name: a}
        spec: {framework: pytorch, image: a/a, command: [torchrun, train.py], roles: {worker: {}}}
        ---
        apiVersion: v1
        kind: Service
        metadata: {name: b}
        spec: {selector: {mlgen.dev/job: a}}
    """
    return unselected(facts.jobs, facts.selectors)


def own_service(document: Document) -> Problem | None:
    """Return the warning of a headless Service for the pods of the job of its name; else None.

    The job renders this Service itself, and two Services of one name replace each other.
    """
    data = document.data
    metadata, spec = data.get("metadata"), data.get("spec")
    if (
        data.get("kind") != "Service"
        or not isinstance(metadata, dict)
        or not isinstance(spec, dict)
    ):
        return None
    name, selector = metadata.get("name"), spec.get("selector")
    selects = isinstance(selector, dict) and name in selector.values()
    if spec.get("clusterIP") != "None" or not selects:
        return None
    headless = f"the job {name} has a headless Service of this name, which selects its pods"
    message = f"the Service {name} is left out: {headless}"
    hint = "remove this object"
    return document.located(Problem(NAME, message, "differs", hint, warning=True))


def is_own(document: Document) -> bool:
    """Return True for an object with the name of a job whose headless Service is in the input."""
    jobs = document.context.jobs if document.context else ()
    metadata = document.data.get("metadata")
    if not jobs or not isinstance(metadata, dict):
        return False
    namespace = str(metadata.get("namespace") or "")
    return any(same_object(each, (namespace, str(metadata.get("name")))) for each in jobs)


def same_object(first: tuple[str, str], second: tuple[str, str]) -> bool:
    """Return True if two namespaces and names can be the same. "" is the namespace of kubectl."""
    return first[1] == second[1] and (first[0] == second[0] or not (first[0] and second[0]))
