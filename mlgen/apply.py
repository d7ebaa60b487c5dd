"""Apply jobs, replace them, and run them again.

kubectl applies objects on the server, with a field manager of mlgen's own, so that another apply
keeps what the supervisor, a queue or an autoscaler has written. The deciding Job keeps the job
file in an annotation, from which `again` renders the same objects.
"""

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Literal, NamedTuple

from mlgen import pipeline
from mlgen.checks.pods import WORKLOADS, workloads
from mlgen.checks.prerequisites import GATE, SCHEDULER, Prerequisite
from mlgen.diff import with_namespace
from mlgen.diff.compare import pair
from mlgen.diff.report import Entry, entries, report
from mlgen.documents.files import Text
from mlgen.kubernetes.names import LAST_APPLIED
from mlgen.kubernetes.objects import Object, is_built_in
from mlgen.kubernetes.versions import DEFAULT, KubeVersion
from mlgen.live import delete
from mlgen.live.job import LiveJob, find, owned
from mlgen.live.kubectl import Kubectl, identity, listed
from mlgen.live.state import snapshot, state
from mlgen.live.watch import Tell
from mlgen.objects import ORDER
from mlgen.objects.labels import OWNER, PART_OF, SOURCE
from mlgen.options import Settings
from mlgen.problems import MlgenError, Problem
from mlgen.result import Options, Rendered
from mlgen.version import ANNOTATION

MANAGER = "mlgen"
"""The field manager: https://kubernetes.io/docs/reference/using-api/server-side-apply/#managers."""

MAX_SOURCE = 64 << 10
"""The size in bytes up to which a job file is stored. All annotations of an object may have 256 KiB
(TotalAnnotationSizeLimitB in k8s.io/apimachinery/pkg/api/validation/objectmeta.go)."""

DEFINITION = "CustomResourceDefinition"

GONE_SECONDS = 120
"""The time until the objects of a job are gone, after its pods are."""

REFUSED = ("rejected", "taken")
"""The verdicts of changes that the API server would reject, or of objects that others own."""

Action = Literal["created", "changed", "unchanged", "ended", "replaced"]


class Applied(NamedTuple):
    """What `apply` did with a job.

    Attributes:
        name: of the job.
        namespace: of the job; "" for the namespace of kubectl's context.
        action: `unchanged` if the job runs with the same job file, `ended` if it has ended. Both
            change nothing.
        message: the changes, as `mlgen diff` prints them, or the state of a job that has ended.
    """

    name: str
    namespace: str
    action: Action
    message: str = ""


class Wanted(NamedTuple):
    """A job to apply.

    Attributes:
        name: of the job.
        namespace: None for the namespace of kubectl's context.
        objects: the objects, in order.
        kube_version: that they are for.
        source: what renders the job again, as JSON; "" if it is unknown or too large.
        prerequisites: objects that the job needs, but that `objects` does not contain.
    """

    name: str
    namespace: str | None
    objects: Sequence[Object]
    kube_version: KubeVersion = DEFAULT
    source: str = ""
    prerequisites: Sequence[Prerequisite] = ()


def wanted(rendered: Rendered, namespace: str | None = None) -> Wanted:
    """Return a rendered job as one to apply, in a namespace if the job file has none."""
    job = rendered.job
    namespace = job.namespace or namespace
    objects = [with_namespace(item, namespace) for item in rendered.objects]
    found = source(rendered)
    stored = found if len(found.encode()) <= MAX_SOURCE else ""
    version = rendered.kube_version
    return Wanted(job.name, namespace, objects, version, stored, rendered.prerequisites)


def source(rendered: Rendered) -> str:
    """Return the job file and the options that render a job again, as JSON."""
    data = rendered.document.data
    if rendered.combination:  # the job file of a combination lacks the name of its sweep
        metadata = data["metadata"]
        labels = {**metadata.get("labels", {}), PART_OF: rendered.combination.base}
        data = {**data, "metadata": {**metadata, "labels": labels}}
    options = {
        "kubeVersion": str(rendered.kube_version),
        "namespace": rendered.job.namespace,
        "supervisor": rendered.job.supervisor,
        "jobset": rendered.job.jobset,
    }
    return json.dumps({**options, "jobFile": data}, ensure_ascii=False)


def again(kubectl: Kubectl, job: LiveJob, settings: Settings = ()) -> Wanted:
    """Return a job in the cluster as one to apply again.

    Args:
        kubectl: reads the cluster.
        job: the job, by name.
        settings: paths with their values, which override the stored job file.

    Raises:
        ClusterError: kubectl is not installed, or fails.
        MlgenError: the settings are invalid, or the cluster does not show what was applied.
    """
    objects = owned(kubectl, job)
    if stored := _annotation(objects, SOURCE):
        (rendered,) = pipeline.render(*stored_job(job.name, stored, settings)).jobs
        return wanted(rendered, job.namespace)
    texts = [_annotation([item], LAST_APPLIED) for item in objects]
    if not any(texts) or settings:
        message = f"the cluster does not have the job file of {job.name}"
        hint = "only mlgen apply stores it; use mlgen apply --replace FILE"
        raise MlgenError([Problem((), message, "kubectl", hint)])
    kept = [json.loads(text) for text in texts if text]
    kept.sort(key=lambda item: ORDER.index(item["kind"]) if item["kind"] in ORDER else -1)
    return Wanted(job.name, job.namespace, kept)


def stored_job(name: str, stored: str, settings: Settings) -> tuple[list[Text], Options]:
    """Return the stored job file of a job and its options, with other settings."""
    try:
        values = json.loads(stored)
        options = Options(
            kube_version=values["kubeVersion"],
            namespace=values["namespace"],
            settings=settings,
            supervisor=values["supervisor"],
            jobset=values["jobset"],
        )
        return [Text(f"<job file of {name}>", json.dumps(values["jobFile"]))], options
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        message = f"the annotation {SOURCE} of {name} is invalid: {error}"
        hint = "use mlgen apply --replace FILE"
        raise MlgenError([Problem((), message, "kubectl", hint)]) from None


def _annotation(objects: Iterable[Object], name: str) -> str:
    """Return the first value of an annotation; "" if no object has it."""
    found = ((item["metadata"].get("annotations") or {}).get(name) for item in objects)
    return str(next(filter(None, found), ""))


class Step(NamedTuple):
    """What to do with a job.

    Attributes:
        job: the job.
        old: the job as it is in the cluster, if it exists.
        result: what is done.
    """

    job: Wanted
    old: LiveJob | None
    result: Applied


def steps(kubectl: Kubectl, jobs: Sequence[Wanted], *, replace: bool = False) -> list[Step]:
    """Return what to do with each job.

    Args:
        kubectl: reads the cluster.
        jobs: the jobs.
        replace: True to delete each job that exists, and to apply it again.

    Raises:
        ClusterError: kubectl is not installed, or fails.
        MlgenError: a change would stop a job that runs, or the API server would reject it.
    """
    present = _present(kubectl, jobs)
    found, refused = list[Step](), list[Problem]()
    for job in jobs:
        old = present.get((job.namespace, job.name))
        decided = _decided(kubectl, job, old, replace=replace)
        if isinstance(decided, Problem):
            refused.append(decided)
        else:
            found.append(Step(job, old, decided))
    if refused:
        raise MlgenError(refused)
    return found


def take(
    kubectl: Kubectl,
    found: Sequence[Step],
    tell: Tell,
    others: Sequence[Object] = (),
    *,
    dry_run: bool = False,
) -> list[Applied]:
    """Apply jobs, and return what was done with each.

    Args:
        kubectl: writes to the cluster.
        found: the steps.
        tell: prints a line for each object, and for each missing prerequisite.
        others: objects that are not jobs, to apply first.
        dry_run: True to change nothing. The API server checks the objects that it does not have.

    Raises:
        ClusterError: kubectl is not installed, or fails.
    """
    for line in absent(kubectl, [each.job for each in found if not each.old]):
        tell(line)
    replaced = [each.old for each in found if each.old and each.result.action == "replaced"]
    if replaced and not dry_run:
        _delete(kubectl, replaced, tell)
    owner = "" if all(each.old for each in found) else _user(kubectl)
    actions = ("created", "changed", *(() if dry_run else ("replaced",)))
    objects = [*others]
    for job, old, result in found:
        if result.action in actions:
            objects += _signed(job, (_annotation(old.objects, OWNER) if old else "") or owner)
    if objects:
        _send(kubectl, objects, tell, dry_run=dry_run)
    return [each.result for each in found]


def _present(kubectl: Kubectl, jobs: Sequence[Wanted]) -> dict[tuple[str | None, str], LiveJob]:
    """Return the jobs that exist, by namespace and name."""
    found = {}
    for namespace in dict.fromkeys(job.namespace for job in jobs):
        names = [job.name for job in jobs if job.namespace == namespace]
        for name, job in find(kubectl, names, namespace).items():
            found[namespace, name] = job
    return found


def _decided(
    kubectl: Kubectl, job: Wanted, old: LiveJob | None, *, replace: bool
) -> Applied | Problem:
    """Return what to do with a job, or why it is refused."""
    name, namespace = job.name, job.namespace or ""
    if old is None:
        return Applied(name, namespace, "created")
    if replace:
        return Applied(name, namespace, "replaced")
    hint = "to delete it, wait for its pods, and apply it again, use --replace"
    if any(item["metadata"].get("deletionTimestamp") for item in workloads(old.objects).values()):
        return Problem((), f"{name} is being deleted", "kubectl", hint)
    now = state(snapshot(old, old.objects, time.time()))
    is_same = bool(job.source) and job.source == _annotation(old.objects, SOURCE)
    found: list[Entry] = []
    if not is_same or (now.missing and not now.ended):
        found += entries(pair(owned(kubectl, old), job.objects), job.kube_version)
    if not found:
        return Applied(name, namespace, "ended" if now.ended else "unchanged", now.phase)
    stops = [each for each in found if each.verdict in REFUSED or each.stops_pods]
    if not (stops or now.ended):
        return Applied(name, namespace, "changed", report(found))
    if now.ended:
        does = f"has ended ({now.phase})"
    else:
        does = f"is {now.phase}, and this change would stop it"
    details = "; ".join(each.lines[0] for each in stops or found)
    return Problem((), f"{name} {does}: {details}", "kubectl", hint)


def _delete(kubectl: Kubectl, jobs: Sequence[LiveJob], tell: Tell) -> None:
    """Delete jobs without their claims, and wait until they and their pods are gone."""
    found = delete.deletion(kubectl, jobs, claims=False)
    if not found.objects:  # the job has been deleted meanwhile
        return
    delete.delete(kubectl, found.objects, tell)
    words = ("wait", "--for=delete", f"--timeout={GONE_SECONDS}s", "-f", "-")
    kubectl.text(*words, stdin=listed(map(identity, found.objects)))


def _signed(job: Wanted, owner: str) -> Iterator[Object]:
    """Yield the objects of a job, with its owner and the job file in annotations."""
    for item in job.objects:
        own = item["metadata"]
        written = own.get("annotations") or {}
        added = {OWNER: owner} if owner and item["kind"] in WORKLOADS else {}
        if job.source and ANNOTATION in written:  # the deciding Job
            added[SOURCE] = job.source
        yield {**item, "metadata": {**own, "annotations": {**added, **written}}} if added else item


def _send(kubectl: Kubectl, objects: Sequence[Object], tell: Tell, *, dry_run: bool) -> None:
    """Apply objects, and print a line for each. After Ctrl-C, say how many are applied."""
    words = ["apply", "--server-side", f"--field-manager={MANAGER}", "-f", "-"]
    count = 0
    try:
        with closing(
            kubectl.lines(*words, *(["--dry-run=server"] if dry_run else []), stdin=listed(objects))
        ) as lines:
            for line in filter(None, lines):
                count += 1
                tell(line.replace(" serverside-applied", " applied"))
    except BaseException:
        if not dry_run:
            tell(f"{count} of {len(objects)} objects are applied; to continue, apply again")
        raise


def _user(kubectl: Kubectl) -> str:
    """Return the user's name for the API server; "" if it does not tell it."""
    outcome = kubectl.outcome("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
    return "" if outcome.status else outcome.stdout.strip()


def absent(kubectl: Kubectl, jobs: Sequence[Wanted]) -> Iterator[str]:
    """Yield a line for each object that jobs need and the cluster does not have.

    A missing object is no error: a pod waits for it. What the user may not read is not reported.
    """
    together: dict[tuple[str | None, bool], dict[str, Prerequisite]] = {}
    for job in jobs:
        for item in job.prerequisites:
            if item.kind not in (DEFINITION, GATE, SCHEDULER):
                kind = f"{item.kind.lower()}.{item.group}".rstrip(".")
                # kubectl fails as a whole if the cluster does not serve one of the kinds.
                key = job.namespace, is_built_in(f"{item.group}/v1" if item.group else "v1")
                together.setdefault(key, {})[f"{kind}/{item.name}"] = item
    for (namespace, _), items in together.items():
        words = ("get", *items, "--ignore-not-found", "-o", "name")
        outcome = kubectl.outcome(*words, namespace=namespace)
        there = () if outcome.status else outcome.stdout.split()
        for name, item in () if outcome.status else items.items():
            if name not in there:
                command = f"; create it: {item.command}" if item.command else ""
                yield f"{item} does not exist, and {', '.join(item.used_by)} needs it{command}"
