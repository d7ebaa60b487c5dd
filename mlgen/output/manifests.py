"""Rendered jobs and other objects → printed manifests, their summaries, and the next commands."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mlgen.objects import notes
from mlgen.output.terminal import safe_json
from mlgen.output.yaml import START, commented, verbatim, yaml_texts
from mlgen.result import Foreign, Rendered

if TYPE_CHECKING:
    from mlgen.checks.prerequisites import Prerequisite
import shlex
from collections.abc import Mapping

from mlgen.checks.prerequisites import Prerequisite, totals
from mlgen.kubernetes.quantity import GPU, readable_amounts
from mlgen.output.terminal import named
from mlgen.problems import Problem, listed
from mlgen.topology import Role, Topology, Wait
from mlgen.version import VERSION

Format = Literal["yaml", "json"]


class Piece(NamedTuple):
    """A part of the output.

    A job's prerequisites depend on the jobs after it, so the text of a job has a gap for them.

    Attributes:
        before: the text before the gap.
        after: the text after the gap; None if there is no gap.
        name: the name of the file in a folder.
        is_program: True for the object with the program of the supervisor.
    """

    before: str
    after: str | None = None
    name: str = ""
    is_program: bool = False

    def filled(self, prerequisites: "Iterable[Prerequisite]") -> str:
        """Return the text, with the job's prerequisites in the gap."""
        if self.after is None:
            return self.before
        return self.before + commented("\n".join(needs(prerequisites))) + self.after


def pieces(part: Rendered | Foreign, form: Format) -> Iterator[Piece]:
    """Yield the text of each object of one part. In YAML, a job starts with its summary."""
    if form == "json":
        yield from map(_json, part.objects)
    elif isinstance(part, Foreign):
        yield Piece(verbatim(part.document.text, part.document.data))
    else:
        yield from headed(part, part.objects)


def headed(job: Rendered, objects: Sequence[Any]) -> Iterator[Piece]:
    """Yield each of a job's objects as YAML. The first one starts with the job's summary."""
    heading = summary(job)
    gap = len(START) + len(commented(heading))
    for number, item in enumerate(yaml_texts(objects, heading, notes(job.topology))):
        yield Piece(item) if number else Piece(item[:gap], item[gap:])


def _json(item: Any) -> Piece:
    """Return an object as an item of a List."""
    lines = safe_json(json.dumps(item, indent=2, ensure_ascii=False)).replace("\n", "\n    ")
    return Piece(f"    {lines}")


def joined(texts: Iterable[str], form: Format) -> Iterator[str]:
    """Yield the texts of all pieces; in JSON, as items of a List, as in `kubectl get -o json`."""
    if form == "yaml":
        yield from texts
        return
    yield '{\n  "apiVersion": "v1",\n  "kind": "List",\n  "items": ['
    separator = end = ""
    for item in texts:
        yield f"{separator}\n{item}"
        separator, end = ",", "\n  "
    yield f"{end}]\n}}\n"


MAX_NEEDS = 12
"""The number of prerequisites that a heading lists; `mlgen show` lists all."""

WIDTH = 98
"""The maximum length of a line of a heading, without `# `."""

PERMISSIONS = "change these objects, read the namespace's pods for their exit codes"

OUTCOMES = {
    "one": "determines the outcome",
    "all": "must succeed",
    "any": "job succeeds if it succeeds",
}
"""A deciding role's part in the outcome, by `Topology.decides`."""

NO_BREAK = "\N{NO-BREAK SPACE}"

STORED = ("ephemeral-storage", "hugepages-")
"""Resources that the first line of a summary omits."""


def heading(rendered: Rendered) -> str:
    """Return the summary of a job and its prerequisites."""
    return "\n".join([summary(rendered), *needs(rendered.prerequisites)])


def needs(prerequisites: Iterable[Prerequisite]) -> list[str]:
    """Return the last lines of a heading, which list the prerequisites; [] if there are none."""
    items = [str(item) for item in prerequisites]
    if not items:
        return []
    if len(items) > MAX_NEEDS:
        items[MAX_NEEDS:] = [f"and {len(items) - MAX_NEEDS} more: see mlgen show"]
    # A no-break space keeps a kind and its name on one line.
    listed = ", ".join(item.replace(" ", NO_BREAK) for item in items)
    return [line.replace(NO_BREAK, " ") for line in _wrapped(f"prerequisites: {listed}")]


def _wrapped(text: str) -> list[str]:
    """Return a paragraph of a heading as lines. Importing `textwrap` would take longer."""
    lines = [" "]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}"
        if len(longer) > WIDTH and not lines[-1].isspace():
            lines.append(f"    {word}")
        else:
            lines[-1] = longer
    return lines


def summary(rendered: Rendered) -> str:
    """Return one line about the job and one per role: replicas, kind of object, and purpose."""
    topology = rendered.topology
    job = topology.job
    sizes = ", ".join(_sizes(rendered))
    lines = [f"{job.name}: {job.framework}, {sizes}. Made by mlgen {VERSION}."]
    counts = topology.counts
    rows: dict[tuple[str, str, str], int] = {}
    for role in topology.roles:
        kind = f"{role.kind}{'' if role.index is None else 's'}"
        key = (role.name, kind, _purpose(topology, role, counts))
        rows[key] = rows.get(key, 0) + role.replicas
    if job.tensorboard:
        rows["tensorboard", "Deployment", ""] = 1
    if topology.supervised:
        together = topology.decides != "one"
        rows["supervisor", "Job", "determines the outcome" if together else ""] = 1
    width = max(len(name) for name, _, _ in rows)
    for (name, kind, purpose), replicas in rows.items():
        one_kind = kind.removesuffix("s") if replicas == 1 else kind
        lines.append(f"  {name:{width}}  {replicas} in {one_kind:11}  {purpose}".rstrip())
    if job.scheduling.gang == "kueue":
        lines.append(f"  Kueue queue: {job.scheduling.queue}")
    if topology.supervised:
        lines += _wrapped(f"the supervisor {_supervision(topology)}")
        lines += _wrapped(f"supervisor permissions: {PERMISSIONS}")
    if rendered.reapply:
        lines += _wrapped(rendered.reapply)
    if alone := replaced_alone(topology):
        lines += _wrapped(". ".join(alone))
    lines += stopped(topology)
    if topology.cleanup:
        lines.append(f"  cleanup after training: {topology.cleanup}")
    return "\n".join([*lines, *(f"  {line}" for line in rendered.settings)])


def stopped(topology: Topology) -> list[str]:
    """Return the lines about evaluators, which are stopped before they read the last results."""
    policy, job = topology.job.run_policy.clean_pod_policy, topology.job
    cleans = job.jobset or (policy != "None" and (topology.supervised or job.workflow))
    deciders = dict.fromkeys(role.name for role in topology.roles if role.decides)
    late = [
        role.name
        for role in topology.roles
        if role.evaluates and not (role.decides or role.endless)
    ]
    if not (late and cleans and deciders):
        return []
    roles = ",".join((*deciders, *dict.fromkeys(late)))
    waits = f"to wait for it, set spec.successPolicy.roles=[{roles}]"
    return _wrapped(f"{late[0]} is stopped when {named(deciders)} ends; {waits}")


ALONE, DISRUPTED = "only that replica restarts", "preempted, drained or lost"


def replaced_alone(topology: Topology) -> list[str]:
    """Return the effects of a lost rank on the ranks that wait for it, as sentences without dots.

    The list is empty if they restart together, or if the others continue without it.
    """
    ranks = [role for role in topology.roles if _has_waiting_peers(topology, role)]
    ranks = [role for role in ranks if role.endless] or ranks
    if topology.job.workflow or sum(role.replicas for role in ranks) <= 1:
        return []
    launchers = [role.name for role in topology.roles if role.decides and ranks[0].endless]
    effects: dict[str, list[str]] = {}
    for name, (role, *_) in topology.by_name.items():
        if role in ranks:
            effects.setdefault(_if_it_fails(topology, role), []).append(name)
    which = {text: f" of {listed(names, 'or')}" for text, names in effects.items()}
    if len(effects) == 1 and not launchers:
        which = dict.fromkeys(effects, "")
    if [*effects] == [ALONE]:
        sentences = [f"if a replica{which[ALONE]} fails, or is {DISRUPTED}: {ALONE}"]
    else:
        fails = [f"if a replica{which[effect]} fails: {effect}" for effect in effects]
        sentences = [", ".join(fails), f"If one is {DISRUPTED}: {ALONE}"]
    peers = f"{named(launchers)} may fail" if launchers else "its peers may hang"
    sentences[-1] += f", and {peers}"
    if topology.job.supervisor:
        sentences.append("To restart all: runPolicy.restartScope: All")
    return sentences


def _has_waiting_peers(topology: Topology, role: Role) -> bool:
    """Return True for ranks that may not continue when one of them is replaced.

    They continue if they depend only on servers, or if a rank that has restarted joins them again.
    """
    idle = topology.idle
    may_fail = role.tolerates_failure or (role.success is not None and role.success.needed)
    if role.gang or role.evaluates or may_fail or not topology.ranked or role.name in idle:
        return False
    if role.endless:
        return (role.max_replicas or 0) <= role.replicas
    admits = role.max_replicas or (role.rejoins and role.restart != "Never")
    servers = [each for each in topology.roles if each.endless and each.name in idle]
    return role.keeps_rank or not (admits or servers)


def _if_it_fails(topology: Topology, role: Role) -> str:
    """Return the effect of a failure on a replica that does not restart together with others."""
    spec, policy = role.spec, topology.job.run_policy
    if role.always_restarts or role.restart == "OnFailure":
        return ALONE
    if role.restart == "ExitCode":
        return f"{ALONE}, or the job fails, by its exit code"
    if spec.backoff_limit_per_index or spec.backoff_limit or policy.backoff_limit:
        return ALONE
    is_watched = topology.supervised or topology.job.jobset
    return "the job fails" if role.decides or is_watched else "the others continue"


def _purpose(topology: Topology, role: Role, counts: Mapping[str, int]) -> str:
    """Return a role's part in the outcome, its waits, and whether it keeps running, as text."""
    parts = []
    if role.decides:
        which = f" ({required(role)})" if required(role) else ""
        parts = [f"{OUTCOMES[topology.decides]}{which}"]
    if role.orders:
        until = (f"{order.role} is {order.until.lower()}" for order in role.orders)
        parts.append(f"starts when {named(until)}")
    if role.spec.without_gpus:
        parts.append("gets no GPUs from spec.resources")
    peers: list[str] = []
    for wait in role.waits:
        peer = awaited(wait, counts, " to ")
        if (wait.role != role.name or role.replicas > 1) and peer not in peers:
            peers.append(peer)
    if peers:
        parts.append(f"waits for {', '.join(peers)}")
    if topology.cleanup and (role.serves or role.endless):
        parts.append("keeps running after training ends")
    return ", ".join(parts)


def awaited(wait: Wait, counts: Mapping[str, int], between: str = "…") -> str:
    """Return the replicas that a role waits for: `ps` for all of a role, else `worker-0`.

    Args:
        wait: the condition.
        counts: the number of replicas of each role.
        between: separator of the first and the last index of a range.
    """
    first, count = wait.hosts.first, wait.hosts.count
    if wait.started or (first == 0 and count == counts.get(wait.role)):
        return f"{wait.role}-0" if wait.started and counts.get(wait.role, 1) > 1 else wait.role
    return f"{wait.role}-{span(first, first + count - 1, between)}"


def span(first: int, last: int, between: str = "…") -> str:
    """Return a range of indexes: `0`, `0…3`."""
    return str(first) if first == last else f"{first}{between}{last}"


def _supervision(topology: Topology) -> str:
    """Return the supervisor's tasks as text."""
    job, parts = topology.job, []
    gang = dict.fromkeys(role.name for role in topology.roles if role.gang)
    if gang:
        parts.append(f"restarts {named(gang)} together")
    if job.run_policy.progress:
        parts.append("receives reports of progress")
    ordered = dict.fromkeys(role.name for role in topology.roles if role.orders)
    if ordered:
        parts.append(f"starts {named(ordered)} in order")
    if not all(role.decides for role in topology.roles):
        parts.append("ends the job if a role fails")
        if job.run_policy.clean_pod_policy != "None":
            verb = "deletes" if job.run_policy.clean_pod_policy == "All" else "stops"
            parts.append(f"{verb} the other roles after training")
    if job.run_policy.ttl_seconds_after_finished is not None:
        parts.append("deletes the job after its TTL")
    return ", ".join(parts or ["ends the job if it cannot continue"])


def required(role: Role) -> str:
    """Return which replicas of a deciding role must succeed; "" if it has only one."""
    if role.replicas == 1:
        return ""
    if role.success is None:
        return "all replicas"
    if role.success.indexes is not None:
        return f"replica {role.success.indexes}"
    return "any replica" if role.success.count == 1 else f"{role.success.count} replicas"


def _sizes(rendered: Rendered) -> Iterator[str]:
    """Return the number of pods and their total requests: `8 GPUs`, `64 CPU`."""
    pods = sum(rendered.topology.counts.values())
    yield f"{pods} pod{'s' if pods > 1 else ''}"
    requests = readable_amounts(totals(rendered.topology, rendered.objects).requests)
    for name in sorted(requests, key=lambda name: (name in ("cpu", "memory"), name)):
        amount = requests[name]
        if name.endswith(GPU):
            yield f"{amount} GPU{'' if amount == '1' else 's'}"
        elif not name.startswith(STORED):
            yield f"{amount} {'CPU' if name == 'cpu' else name}"


def verdict(rendered: Rendered) -> str:
    """Return one line about a valid job: `bert: valid, pytorch, 2 pods, 16 GPUs`."""
    job = rendered.job
    name = f"{job.namespace}/{job.name}" if job.namespace else job.name
    return f"{name}: valid, {job.framework}, {', '.join(_sizes(rendered))}"


def file_argument(name: str) -> str:
    """Return the name of a file as an argument that no program reads as an option."""
    return f"./{name}" if name.startswith("-") and name != "-" else name


def next_steps(
    jobs: int,
    files: Sequence[str],
    options: Iterable[str],
    output: str | None,
    warnings: Iterable[Problem] = (),
) -> str:
    """Return the commands that apply and watch the rendered jobs; "" if there are none.

    Args:
        jobs: the number of rendered jobs.
        files: the rendered files. `-` (stdin) cannot be read again.
        options: the words of the command line that affect the names of jobs.
        output: the file or folder to apply; None if there is none.
        warnings: the warnings of the rendering.
    """
    if not jobs:
        return ""
    steps = []
    if output is not None:
        large = any(problem.code == "large-object" for problem in warnings)
        apply = ["kubectl", "apply", *(["--server-side"] if large else []), "-f"]
        steps.append([*apply, file_argument(output)])
    if "-" not in files:
        words = [*map(file_argument, files), *options]
        steps.append(["mlgen", "status", *words])
        if jobs == len(files) == 1:
            steps.append(["mlgen", "logs", *words, "--follow"])
    return "\n".join(["next:", *(f"  {shlex.join(step)}" for step in steps)]) if steps else ""
