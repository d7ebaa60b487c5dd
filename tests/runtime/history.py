"""One random history of one job, and the invariants during and after it."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from http import HTTPStatus
from random import Random
from typing import NamedTuple

from runtime import rights
from runtime.controllers import indexes_of, is_deleted, is_final
from runtime.faults import SERVER, START, Faults
from runtime.ledger import DISRUPTION, EXIT, KILLED, REJECTION, Fact, Ledger
from runtime.sidecars import waits
from runtime.world import EPOCH, NODES, Client, Killed, World

from mlgen.runtime import supervise
from mlgen.runtime.answers import RECORD, Event, shaped
from mlgen.runtime.last_log import LINES
from mlgen.runtime.plan import Order, Plan, Workload
from mlgen.runtime.server import Request
from mlgen.runtime.supervise import RESYNC, Supervisor

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0

LIMIT = 24 * HOUR
"""The limit of a history in virtual seconds. The limit of a long history is 120 days."""

PHASES = ("BackingOff", "Starting", "Running", "Stopping", "Ended")
"""In the order of one attempt. A new attempt starts with BackingOff."""

PACES = ((0.5, 50), (0.5, 50), (66, 300), (1.1 * HOUR, 2.5 * HOUR), START)
"""The shortest and longest training of a gang until its end, in seconds."""

FATES = {
    "reject": "the kubelet rejects a pod",
    "init": "an init container fails",
    "start error": "a container cannot be started",
}
SHAPES = ("worker", "worker", "elastic", "master", "server", "initializer", "ready", "all", "any",
          "replica")  # fmt: skip

WORKER = Workload("Job", "mnist-worker", "worker")
MASTER = Workload("Job", "mnist-master", "master")
STRANGERS = ("other", "mnist-x")
"""Services of another job. One has a name from the plan."""
INITIALIZER = Workload("Job", "mnist-initializer", "initializer")
SECOND = 1.0
"""The precision of the API server's times."""
LATEST = 2400.0
"""Seconds until a stopped gang starts again, with faults of minutes, but none of an hour."""
LATE = 2.0
"""Seconds until the last object of the job exists."""
LOST = 60.0
"""Seconds after its grace period from which a pod counts as lost."""
PATIENCE = 1800.0
"""Seconds for which a replica waits for its peers."""
MOST_STEPS = 400
"""Steps of a supervisor in a minute that only a loop without a pause reaches."""
HIGH = 2**31 - 1

CLOCK = "supervisor whose own clock is two minutes wrong"


class Calm(NamedTuple):
    """A history without faults except failures of the gang."""

    pace: tuple[float, float]
    """The shortest and longest training until its end, in seconds."""
    failures: int
    limit: int
    """The backoffLimit."""
    code: int | None = None
    """The exit code of all failures; None for several codes."""


class Watch:
    """Reports each change of a pod to a supervisor: at once, late, or never."""

    def __init__(self, world, late, pods, ring):
        self.world, self.late, self.pods, self.ring = world, late, pods, ring
        pods.hear(world.list("Pod", labelSelector="mlgen.dev/job=mnist"))
        world.watches.append(self)

    def see(self, pod):
        if self.late is None:
            self.world.faults["event of a watch that is dead"] += 1
        elif pod["metadata"]["labels"]["mlgen.dev/job"] == "mnist":
            change = "MODIFIED" if self.world.exists(pod) else "DELETED"
            self.world.faults[f"event of a watch that is {self.late} s late"] += 1
            event = Event(change, [shaped("Pod", pod)], pod["metadata"]["resourceVersion"])
            self.world.after(self.late, self.tell, event)

    def tell(self, event):
        self.pods.hear(event)
        self.ring()


class History(Faults):
    """A job, the faults of it and its supervisors, and its expected end."""

    def __init__(self, seed, calm=None):
        self.random = random = Random(seed)
        self.world = world = World(random)
        self.calm = calm
        self.shape = random.choice(("worker", "master") if calm else SHAPES)
        self.limit = calm.limit if calm else random.choice((0, 1, 2, 3, 5))
        self.plan = self.make_plan()
        self.ledger = Ledger(self.plan)
        self.gang = {item.name for item in self.plan.gang}
        # Preparing roles have ended before the others start.
        self.trains = {item.name for item in self.plan.workloads} - {INITIALIZER.name}
        self.failures_left = random.choice((0, 0, 1, 1, 2, 3, 4, 6))
        self.pace = random.choice(PACES)
        self.code = random.choice((None, None, 1, 42, 137))
        """The exit code of all failures; None for several codes."""
        if calm:
            self.failures_left, self.pace, self.code = calm.failures, calm.pace, calm.code
        elif self.pace == START:
            self.code, self.failures_left = self.code or 1, 9
        self.broken = []
        self.allowed_ends = {}
        """Accepted reasons of an end that was caused from outside, with the cause."""
        self.ran_since = None
        self.ran = 0.0
        self.status_seen = []
        self.reported = set()
        self.over_at = None
        self.created_after = 0
        self.crashed = 0
        self.forgot = False
        self.started_in_place = False
        """True if the gang has its pods from an earlier attempt. A pod that is replaced then may
        come back to its node."""
        self.meddled = False
        """True if another client has changed the Jobs since the gang last ran."""
        self.lost_bells = 0.0 if calm else random.choice((0.0, 0.3, 1.0))
        self.rate = 0.0 if calm else random.choice((0.0, 0.02, 0.1, 0.25))
        self.make_cluster()
        self.make_objects()
        self.connect(world)
        count = 1 if calm else random.choice((1, 1, 2))
        # With two wrong clocks, nobody knows the time.
        skews = (0, 0, -120, 120) if len(world.servers) == 1 else (0,)
        self.supervisors = [
            {"at": EPOCH + i * 3, "self": None, "skew": random.choice(skews)} for i in range(count)
        ]
        self.steps = Counter()
        self.depth = 0
        self.applies_until = self.stopped_at = 0.0
        world.faults["second supervisor at the same time"] += count - 1
        for each in self.supervisors:
            each["client"] = Client(world, random, self.rate, partial(self.between, each))
            each["client"].skew = each["skew"]
            each["client"].odd = self.odd
            each["client"].forget()
            world.faults[CLOCK] += bool(each["skew"])
        world.bells.append(self.ring)

    def connect(self, world):
        world.on_pod_running = self.pod_running
        world.on_request = self.request
        world.on_pod_created = self.pod_created
        world.on_pod_failed = self.pod_failed
        world.on_write = self.check_write
        world.on_resumed = self.widen_now
        world.on_evicted = self.pod_evicted

    # The job, and the cluster

    def make_plan(self):
        random = self.random
        n = random.choice((2, 3, 4) if self.shape == "elastic" else (1, 2, 3, 4))
        rule = "any" if self.calm else random.choice(("any", "any", ">=128", (137, 138), None))
        worker = WORKER._replace(replicas=n, retryable=rule)
        master = MASTER._replace(retryable=rule)
        plan = Plan(
            job="mnist",
            run="run-2",
            deciding=("mnist-worker",),
            workloads=(worker,),
            restart_scope="All",
            backoff_limit=self.limit,
            clean_pod_policy=random.choice(("None", "Running", "All")),
            ttl_seconds=random.choice((None, None, 100)),
            deadline_seconds=None if self.calm else random.choice((*[None] * 5, 40, 5000)),
            avoid_nodes=random.choice(("", "Preferred", "Required")),
            force_delete_seconds=random.choice((0, 90)),
            start_failures=random.choice((0, 3, 3)),
            disruptions=0 if self.calm else random.choice((0, 0, 0, 2)),
            in_place=random.random() < 0.4,
            pending_seconds=0 if self.calm else random.choice((0, 0, 600)),
        )
        if plan.clean_pod_policy == "All" or plan.ttl_seconds:
            plan = plan._replace(objects=(("Service", "mnist"), ("Service", "mnist-x")))
        changes = {
            "worker": {},
            "elastic": {},
            "master": {"deciding": ("mnist-master",), "workloads": (master, worker)},
            "server": {
                "workloads": (SERVER, worker),
                "restart_scope": random.choice(("All", ("worker", "ps"))),
            },
            "initializer": {
                "workloads": (self.make_initializer(rule), worker),
                "order": (Order("worker", "Complete", "initializer"),),
            },
            "ready": {
                "workloads": (SERVER, worker),
                "order": (Order("worker", "Ready", "ps"),),
            },
            "all": {"decides": "all", "deciding": ("mnist-master", "mnist-worker")},
            "any": {"decides": "any", "deciding": ("mnist-master", "mnist-worker")},
            "replica": {"deciding": ("mnist-master",)},
        }[self.shape]
        if self.shape in ("all", "any", "replica"):
            server = (SERVER,) if self.shape == "replica" else ()
            changes |= {"restart_scope": "Replica", "workloads": (master, worker, *server)}
            changes["in_place"] = False
        return plan._replace(**changes)

    def make_initializer(self, rule):
        replicas = self.random.choice((1, 1, 3))
        return INITIALIZER._replace(
            replicas=replicas, retryable=self.random.choice(("alone", rule))
        )

    def make_cluster(self):
        world, random = self.world, self.random
        if self.plan.in_place:
            world.in_place = {item.name: item.retryable != "alone" for item in self.plan.gang}
            world.hidden = 0.0 if self.calm else world.hidden
            world.faults["job that restarts in place"] += 1
        self.precision = SECOND
        self.odd = 0.0 if self.calm else random.choice((0.0, 0.0, 0.0, 0.01, 0.03))
        if random.random() < 0.1 and not self.calm:
            world.faults["API servers with several clocks"] += 1
            world.servers = (0.0, 0.0, random.choice((-HOUR, HOUR)))
        world.moves = random.choice((True, True, False))
        world.sidecar, world.fetches = random.random() < 0.25, random.random() < 0.25
        world.faults["job whose pods have a native sidecar"] += world.sidecar
        world.faults["job whose pods have an init container"] += world.fetches
        if random.random() < 0.3 and not self.calm:
            skews = (0.0, 0.0, -200.0, 75.0, 400.0)
            world.skews = {node: random.choice(skews) for node in sorted(NODES)}
            world.faults["node whose clock is minutes wrong"] += sum(
                map(bool, world.skews.values())
            )
        if random.random() < 0.3 and not self.calm:
            world.on_sigterm = (0, 0, 143)
            world.faults["job whose program exits with 0 when it is told to end"] += 1

    def make_objects(self):
        world, plan = self.world, self.plan
        held = {order.role for order in plan.order}
        stale = {"state": json.dumps({"run": "run-1", "phase": "Ended", "ended": 1.0, "code": 0})}
        data = self.random.choice(({}, {**stale, "Succeeded": "True 2026-01-01T00:00:00Z A: b"}))
        world.put("ConfigMap", "mnist.status", data=data)
        world.put("Service", "mnist")
        world.put("ConfigMap", "other.status", data={})
        for name in STRANGERS:
            world.put("Service", name, metadata={"labels": {"mlgen.dev/job": "other"}})
        for job, items in (("mnist", plan.workloads), ("other", (WORKER,))):
            for item in items:
                metadata = {"labels": {"mlgen.dev/job": job}}
                suspended = job == "mnist" and item.role in held
                if suspended:
                    metadata["annotations"] = {RECORD: "waits"}
                spec = {
                    "completions": item.replicas,
                    "parallelism": item.replicas,
                    "backoffLimit": HIGH,
                    "backoffLimitPerIndex": HIGH,
                    "suspend": suspended,
                    "template": {"spec": {}},
                }
                if item.kind == "StatefulSet":
                    spec = {"replicas": item.replicas}
                elif not self.gang or item.retryable == "alone":
                    del spec["backoffLimitPerIndex"]
                    spec.update(backoffLimit=self.limit, podFailurePolicy=True)
                name = item.name if job == "mnist" else "other-worker"
                # If clocks differ, a deadline may end the job before all its objects exist.
                late = job == "mnist" and plan.deadline_seconds != 40
                at = self.random.choice((0.0, 0.0, LATE)) if late else 0.0
                world.after(at, self.apply, item.kind, name, metadata, spec)

    def apply(self, kind, name, metadata, spec):
        self.world.put(kind, name, metadata=metadata, spec=spec)

    # The pods

    def state(self):
        """Return the state that is stored for this run."""
        data = self.world.objects["ConfigMap", "mnist.status"].get("data", {})
        state = json.loads(data.get("state", "{}"))
        return state if state.get("run") == self.plan.run else {}

    def workloads(self, names):
        found = (self.world.objects.get((item.kind, item.name)) for item in self.plan.workloads)
        return [body for body in found if body and body["metadata"]["name"] in names]

    def pod_created(self, pod):
        owner = pod["owner"]
        if owner == "other-worker":
            return
        pod["late"] = self.over_at is not None
        if self.over_at is not None and self.world.now > self.over_at + 600:
            self.created_after += 1
        if owner not in self.gang:
            return
        # Pods that other clients start while the gang stops belong to no attempt, or to the next.
        pod["attempt"] = self.ledger.attempt + (self.meddled and self.ledger.is_stopping)
        avoid = set() if self.forgot else {*self.state().get("avoid", "").split()}
        avoid &= {pod["spec"]["nodeName"]} if NODES - self.world.tainted - avoid else set()
        if (
            self.plan.avoid_nodes
            and not self.started_in_place
            and self.world.moves
            and not self.meddled
            and owner != SERVER.name
            and avoid
        ):
            self.broken.append("a pod is on a node that is to be avoided")
        for other in self.world.all("Pod") if not self.ledger.is_stopping else ():
            earlier = other.get("attempt", pod["attempt"]) < pod["attempt"]
            if earlier and self.may_run(other) and not waits(other):
                name = other["metadata"]["name"]
                self.broken.append(f"a new pod met {name} of attempt {other['attempt']}")
        # A job that ends before all its objects exist does not clean up the others.
        may_fail = self.failures_left and self.world.now > EPOCH + LATE and not self.calm
        may_fail = may_fail and owner != SERVER.name
        if may_fail and self.random.random() < 0.06:
            self.failures_left -= 1
            fates = ["reject", *(["init"] if self.world.fetches else [])]
            fates += [] if self.plan.in_place else ["start error"]
            pod["fate"] = self.random.choice(fates)

    def may_run(self, pod):
        """Return True if a pod may run, according to information outside of its node."""
        is_lost = is_deleted(pod) and self.world.now > pod["due"] + LOST
        return not is_final(pod) and not is_lost and not self.world.is_silent(pod)

    def fact(self, pod, kind, code=0, **more):
        ran = self.world.now - pod.get("started", self.world.now)
        rule = next((i.retryable for i in self.plan.gang if i.name == pod["owner"]), "alone")
        attempts = (self.ledger.attempt, self.ledger.attempt + self.ledger.is_stopping)
        if (rule != "alone" or kind == DISRUPTION) and pod["attempt"] in attempts:
            prepares = pod["owner"] == INITIALIZER.name
            self.ledger.add(Fact(kind, code, ran, rule=rule, prepares=prepares, **more))

    def pod_evicted(self, pod):
        if pod["owner"] in self.gang:
            self.fact(pod, DISRUPTION, is_sure=False)

    def pod_failed(self, pod):
        """Record that a pod has failed before it trained."""
        fate = pod["fate"]
        self.world.faults[FATES[fate]] += 1
        kinds = {"reject": (REJECTION, 0), "init": (EXIT, 1), "start error": (KILLED, 128)}
        kind, code = kinds[fate]
        self.fact(pod, kind, code, is_init=fate == "init")

    def pod_running(self, pod):
        owner, world = pod["owner"], self.world
        if owner == "other-worker":
            return
        if self.random.random() < 0.3 and world.sidecar:
            world.faults["a sidecar crashes and recovers"] += 1
            world.during(self.random.uniform(0, 30), world.crash_sidecar, pod)
        if self.plan.in_place and owner in self.gang:
            self.check_start(pod)
        if owner == INITIALIZER.name:
            self.prepare(pod)
        elif not self.gang:
            self.replica_running(pod, owner)
        elif owner not in self.gang:
            world.after(self.random.uniform(1, 20), world.end_pod, pod, 0)
        else:
            self.train_together()
            if owner != SERVER.name:
                world.during(PATIENCE, self.give_up, pod)

    def check_start(self, pod):
        """Check that no container of an earlier attempt runs when a pod starts again."""
        if pod.get("number"):
            pod["attempt"] = self.ledger.attempt
        for other in self.world.all("Pod"):
            if other.get("attempt", pod["attempt"]) < pod["attempt"] and self.is_up(other):
                name = other["metadata"]["name"]
                self.broken.append(f"a pod started again and met {name}")
        if self.random.random() < 0.1:
            self.world.faults["the sidecar for restarts in place crashes and recovers"] += 1
            self.world.during(self.random.uniform(0, 30), self.world.crash_own, pod)

    def give_up(self, pod):
        """Let a pod fail after it has waited too long for its peers."""
        if self.is_up(pod) and "session" not in pod:
            self.fail_peer(pod, 1)

    def train_together(self):
        """Let the gang train if all of its pods run, and none of them has trained before."""
        pods = [pod for pod in self.world.all("Pod") if pod["owner"] in self.gang & self.trains]
        pods = [pod for pod in pods if self.is_up(pod)]
        bodies = self.workloads(self.gang & self.trains)
        sizes = [each["spec"].get("completions", each["spec"].get("replicas")) for each in bodies]
        wanted = sum(sizes) if len(bodies) == len(self.gang & self.trains) else -1
        session = next((pod["session"] for pod in pods if "session" in pod), None)
        if len(pods) == wanted and session is None:
            self.session_starts(pods)
        elif self.shape == "elastic" and session and session["goes on"]:
            session["pods"] += [pod for pod in pods if pod not in session["pods"]]
            for pod in pods:
                pod["session"] = session
                if session["succeeds"]:
                    self.world.during(30.0, self.world.end_pod, pod, 0)
        elif self.over_at is not None:
            for pod in [pod for pod in pods if pod["owner"] != SERVER.name]:
                # Without peers, it fails.
                self.world.during(self.random.uniform(5, 60), self.world.end_pod, pod, 1)

    def is_up(self, pod):
        return self.world.is_running(pod) and not pod.get("exiting") and not is_deleted(pod)

    def prepare(self, pod):
        code = 0
        if self.failures_left and self.random.random() < 0.3:
            self.failures_left -= 1
            code = self.random.choice((1, 137))
            self.world.faults["a preparing role fails"] += 1
        self.world.during(self.random.uniform(1, 20), self.end_preparing, pod, code)

    def end_preparing(self, pod, code):
        if self.is_up(pod):
            if code and self.plan.workloads[0].retryable != "alone":
                self.fact(pod, KILLED if code > 1 else EXIT, code)
            self.world.end_pod(pod, code)

    def replica_running(self, pod, owner):
        if owner == SERVER.name:
            return
        code, seconds = 0, self.random.uniform(5, 60)
        if self.failures_left:
            self.failures_left -= 1
            code = self.random.choice((0, 1, 137))
            if self.random.random() < 0.3:
                self.world.faults["replica drained"] += 1
                self.world.after(
                    seconds / 2, partial(self.world.delete_pod, pod, disrupted="Eviction")
                )
        self.world.faults["replica exits with an error"] += code > 0
        self.world.after(seconds, self.world.end_pod, pod, code)

    def session_starts(self, pods):
        """Let the gang train. Then it succeeds, or one pod fails first."""
        world, random = self.world, self.random
        session = {"pods": list(pods), "goes on": True, "succeeds": not self.failures_left}
        self.note_run()
        self.ran_since = world.now
        for pod in pods:
            pod["session"] = session
        jobs = [pod for pod in pods if pod["owner"] != SERVER.name]
        seconds = random.uniform(*self.pace)
        if self.failures_left:
            self.failures_left -= 1
            world.after(seconds, self.fail_gang, session, self.choose(jobs, pods))
            return
        for pod in jobs:
            world.during(seconds + random.uniform(0, 2), world.end_pod, pod, 0)

    # The supervisors

    def ring(self):
        for each in self.supervisors:
            if self.random.random() < self.lost_bells:
                self.world.faults["event of a watch lost"] += 1
            else:
                self.wake(each)

    def wake(self, each):
        each["at"] = min(each["at"], self.world.now + 0.2)

    def between(self, current):
        """Let time pass between two requests of a supervisor, or another supervisor act."""
        if self.depth:
            return
        self.depth += 1
        others = [each for each in self.supervisors if each is not current]
        if others and self.random.random() < 0.5:
            for _ in range(self.random.choice((1, 3, 20, 60))):
                self.step(self.random.choice(others))
                self.world.advance(self.world.now + self.random.choice((0.0, 0.5, 5.0, 10.0)))
        else:
            self.world.advance(self.world.now + self.random.choice((0.1, 1.0, 30.0)))
        self.depth -= 1

    def make_supervisor(self, each):
        supervisor = Supervisor(self.plan, each["client"], self.log)
        if supervisor.gate:
            supervisor.gate.ring = partial(self.wake, each)
            supervisor.gate.wake = partial(self.world.after, 0.05, self.answer_held, supervisor)
        return supervisor

    def request(self, pod):
        """Pass the request of a sidecar to a supervisor."""
        alive = [each["self"] for each in self.supervisors if each["self"]]
        alive = [each for each in alive if each.exit_code is None]
        if alive:
            self.answer(pod, self.random.choice(alive))
        elif not all(each.get("done") for each in self.supervisors):
            self.world.hear(pod, "")

    def answer(self, pod, supervisor):
        query = f"{pod['query']}={pod['number']}"
        answer = self.ask(supervisor, query, pod["metadata"]["uid"])
        pod["at"] = supervisor
        if not isinstance(answer, str):  # otherwise, the supervisor holds the request
            self.world.hear(pod, answer[1] if answer[0] == HTTPStatus.OK else "")

    def ask(self, supervisor, query, token, path="/attempt", body=b""):
        """Return the answer of a supervisor to a request, as its server does."""
        request = Request("POST" if body else "GET", path, query, body, token, "10.0.0.9")
        return supervise.answer(self.plan, supervisor, request)

    def answer_held(self, supervisor):
        """Answer the requests that a supervisor holds."""
        for pod in self.world.all("Pod"):
            if pod.get("at") is supervisor and not self.world.is_lost(pod):
                self.answer(pod, supervisor)

    def lose_held(self, supervisor):
        """Let the sidecars notice that their supervisor has died."""
        for pod in self.world.all("Pod"):
            if pod.get("at") is supervisor:
                self.world.hear(pod, "")

    def step(self, each):
        world = self.world
        if each.get("done"):
            return
        minute = (id(each), world.now // MINUTE)
        self.steps[minute] += 1
        if self.steps[minute] == MOST_STEPS:
            self.broken.append("a supervisor does not rest")
        if each["self"] is None:
            each["client"].forget()
            each["self"] = self.make_supervisor(each)
            late = self.random.choice((0.0, 0.0, 0.5, 9.0, 0.5 if self.calm else None))
            each["watch"] = Watch(world, late, each["self"].pods, partial(self.wake, each))
        try:
            delay = each["self"].step()
        except (Killed, SystemExit) as problem:
            dead, each["self"] = each["self"], None
            self.lose_held(dead)
            world.watches.remove(each["watch"])
            each["at"] = world.now + self.random.choice((0.0, 2.0, 40.0))
            if isinstance(problem, SystemExit):
                self.crashed += 1
                each["at"] = world.now + min(10.0 * 2**self.crashed, 360.0)
            return
        if delay > 1.1 * RESYNC:
            self.broken.append(f"a supervisor sleeps for {delay} s")
        if each["self"].exit_code is not None:
            each["done"] = True
        if delay > 50 and self.pace[1] > HOUR:
            delay *= 60 if self.calm else 6  # long training: it polls less often
        each["at"] = world.now + max(delay, 0.01)

    def log(self, line):
        """Discard a line of the log. Debugging sessions replace this method."""

    def check_write(self, verb, kind, name, body):
        plan = self.plan
        named = {(item.kind, item.name) for item in plan.workloads}
        if (kind, name) == ("ConfigMap", "mnist.status") and verb in ("patch", "create"):
            state = (body.get("data") or {}).get("state")
            if state:
                self.check_status(json.loads(state))
                self.check_log(json.loads(state), body["data"].get("lastLog"))
        elif (verb, kind) == ("delete", "Pod"):
            self.check_force(self.world.objects[kind, name], body)
        elif verb == "delete":
            if plan.clean_pod_policy != "All" or (kind, name) not in named | set(plan.objects):
                self.broken.append(f"deleted {kind} {name}")
        elif (verb, kind) == ("create", "Event"):
            self.check_event(body)
        elif (kind, name) in plan.objects and list(body["metadata"]) == ["ownerReferences"]:
            pass
        elif (kind, name) not in named or verb != "patch":
            self.broken.append(f"wrote {verb} {kind} {name}")
        elif name in self.gang and not self.ended():
            self.check_switch(body.get("spec", {}))

    def check_force(self, pod, body):
        """Check that a pod is deleted without its node only after the time in the plan."""
        end = pod.get("due", float("inf"))
        late = self.world.now > end + self.plan.force_delete_seconds - self.precision
        if pod["owner"] != SERVER.name or not self.plan.force_delete_seconds or not late:
            self.broken.append(f"deleted the pod {pod['metadata']['name']}")
        if body.get("gracePeriodSeconds") != 0:
            self.broken.append("deleted a pod of a lost node with a grace period")
        self.world.faults["a pod of a lost node is deleted by the supervisor"] += 1

    def check_switch(self, spec):
        """Record that a part of the gang is stopped."""
        stops = spec.get("suspend") is True or spec.get("replicas") == 0
        if stops:
            self.note_stop()

    def note_stop(self):
        """Record that the supervisor stops the gang, once for each attempt."""
        if not self.ledger.is_stopping:
            self.ledger.stop()
            self.note_run()
            self.meddled = False

    def note_run(self):
        """Record the running time of the whole gang in this attempt."""
        if self.ran_since is not None:
            self.ran = max(self.ran, self.world.now - self.ran_since)

    def check_event(self, event):
        known = (event["reason"], event["message"], event["firstTimestamp"])
        if known in self.reported:
            self.broken.append(f"event {known} twice")
        self.reported.add(known)

    def check_delay(self, phase):
        """Check that a stopped gang starts again in time. A server may wait for a lost node."""
        if phase != "BackingOff":
            delay, self.stopped_at = self.world.now - (self.stopped_at or self.world.now), 0.0
            if phase == "Starting" and delay > LATEST and SERVER not in self.plan.workloads:
                self.broken.append(f"a restart took {delay} s")
        elif not self.stopped_at:
            self.stopped_at = self.world.now

    def check_log(self, state, text):
        """Check that a log which is kept is of the failure that stops the gang."""
        if text:
            self.world.faults["log of a failed replica that is kept"] += 1
            title, *lines = text.split("\n")
            pod = title.split(", ")[1].rpartition(" ")[2]
            cause = state.get("cause")
            if cause and cause["pod"].rpartition(" ")[2] != pod:
                self.broken.append(f"kept the log of {pod}, but the cause is {cause}")
            if lines[-1].startswith(pod) and len(lines) != LINES:
                self.broken.append(f"kept {len(lines)} lines")

    def check_status(self, state):
        attempt = state.get("restarts", 0) + state.get("disruptions", 0)
        phase = state.get("phase", "Running")
        rank = (attempt, PHASES.index(phase))
        if self.status_seen and rank < self.status_seen[-1][0]:
            self.broken.append(f"status went from {self.status_seen[-1]} to {rank}")
        if (
            self.status_seen
            and self.status_seen[-1][0][1] == PHASES.index("Ended")
            and self.status_seen[-1][1] != state
        ):
            self.broken.append("the end has changed")
        self.check_delay(phase)
        self.status_seen.append((rank, state))
        counts = state.get("restarts", 0), state.get("disruptions", 0)
        more = counts != (self.ledger.restarts, self.ledger.disruptions)
        if phase == "Stopping" and state.get("in_place"):
            self.note_stop()
        if phase == "Starting" and (self.ledger.is_stopping or more):
            self.broken += self.ledger.start(*counts, self.ran, again=self.forgot)
            self.ran, self.ran_since = 0.0, None
            self.started_in_place = bool(state.get("in_place"))
            # Pods that were scaled away, on a lost node, belong to the new attempt, too.
            self.ledger.is_unclear |= self.started_in_place and self.shape == "elastic"
        elif phase == "Running" and self.forgot:
            self.ledger.is_stopping = False  # the decision to stop is lost
        if phase == "Ended" and self.over_at is None:
            self.over_at = self.world.now
            if state["reason"] == "RestartRefused" and not self.is_refusable():
                self.broken.append("the restart was refused, although it could succeed")

    def ended(self):
        return self.over_at is not None

    # The end

    def run(self):
        """Play the history; return the broken invariants."""
        self.accidents()
        world = self.world
        limit = 120 * DAY if self.calm else LIMIT
        while not all(each.get("done") for each in self.supervisors):
            due = min((e for e in self.supervisors if not e.get("done")), key=lambda e: e["at"])
            world.advance(max(world.now, min(due["at"], world.next_time())))
            if due["at"] <= world.now:
                self.step(due)
            if world.now > EPOCH + limit:
                return [*self.broken, "hangs"]
            if self.crashed > 8:
                return [*self.broken, "the supervisor fails again and again"]
            if self.broken:
                return self.broken
        world.advance(world.now + 120)
        self.check_end()
        self.check_rate()
        world.advance(world.now + DAY)
        stays = max(world.webhook[1], world.resumer[1]) > world.now
        if not stays and self.created_after > 2 * sum(
            item.replicas for item in self.plan.workloads
        ):
            self.broken.append(f"{self.created_after} pods were created after the end")
        return self.broken

    def check_end(self):
        if not self.status_seen or self.state().get("phase") != "Ended":
            self.broken.append("not ended")
            return
        state = self.status_seen[-1][1]
        world, plan = self.world, self.plan
        reason, code = state.get("reason"), state.get("code", 0)
        codes = {each["self"].exit_code for each in self.supervisors if each["self"]}
        if codes - {code}:
            self.broken.append(f"exit codes {codes}, not {code}")
        self.check_reason(reason, code)
        self.check_jobs(reason, code)
        refuses = world.webhook[0] <= world.now < world.webhook[1]
        resumes = world.resumer[0] <= world.now < world.resumer[1]
        # In place, pods that another client starts after the end wait for a supervisor.
        pods = [pod for pod in world.all("Pod") if not (self.plan.in_place and pod.get("late"))]
        live = {pod["owner"] for pod in pods if self.may_run(pod)} - {"other-worker"}
        if not refuses and not resumes:
            if plan.clean_pod_policy != "None" and live:
                self.broken.append(f"{live} still run")
            if code and live & set(plan.deciding):
                self.broken.append("the deciding Job still runs")
            if not world.faults["change of a Job that a webhook refuses"]:
                self.check_cleaned()
        refused = rights.missing(self.requests(), plan)
        if refused:
            self.broken.append(f"the Role does not allow {refused}")

    def check_rate(self):
        """Check that a conflict that does not end slows a supervisor down."""
        start, end = self.world.conflicts
        for each in self.supervisors if end > start + MINUTE else ():
            count = sum(start + MINUTE < at < end for at in each["client"].times)
            if count > 2 * (end - start - MINUTE):
                self.broken.append(f"{count} requests in {end - start - MINUTE} s of conflicts")

    def check_reason(self, reason, code):
        """Check that a job has not ended while it could continue."""
        if not code or not self.gang or reason in self.allowed_ends or self.ledger.excuse:
            return
        if reason == "DeadlineExceeded":
            ran, limit = self.over_at - EPOCH, self.plan.deadline_seconds
            if limit is None or ran < limit - SECOND:
                self.broken.append(f"the deadline is {limit}, but after {ran} s")
            return
        alone = [item.name for item in self.plan.gang if item.retryable == "alone"]
        if any(self.world.ends.get(name) is False for name in alone):
            return  # Kubernetes restarts and counts their replicas
        if reason == "EndedEarly":
            told = "disruption" in self.ledger.verdicts() and 0 in self.world.on_sigterm
            if not told or not all(self.world.ends.get(name) for name in self.plan.deciding):
                self.broken.append("no program has ended early")
            return
        wrong = self.ledger.why_wrong(reason, code, self.ran)
        if wrong:
            self.broken.append(f"ended: {wrong}")

    def is_refusable(self):
        """Return True if an index 0 has succeeded, because no Job runs it again."""
        jobs = [body for body in self.workloads(self.gang & self.trains) if body["kind"] == "Job"]
        done = [indexes_of(body["status"].get("completedIndexes", "")) for body in jobs]
        return any(0 in indexes for indexes in done)

    def requests(self):
        """Return the permissions that the supervisors have used."""
        used = {request for each in self.supervisors for request in each["client"].requests}
        return used.union(rights.watched(self.plan))

    def check_cleaned(self):
        """Check that all objects are deleted, or owned by the supervisor's Job."""
        world, plan = self.world, self.plan
        kinds = ("Job", "StatefulSet", "Service")
        pairs = [(key, body) for key, body in world.objects.items() if key[0] in kinds]
        left = {name for (_, name), body in pairs if not is_deleted(body)}
        if plan.clean_pod_policy == "All":
            expected = {*STRANGERS, "other-worker"}
            if left != expected:
                self.broken.append(f"{left} are left")
        else:
            owned = {n for (_, n), body in pairs if body["metadata"].get("ownerReferences")}
            owned &= left
            expected = left - {*STRANGERS, "other-worker"} if plan.ttl_seconds else set()
            if owned != expected:
                self.broken.append(f"{owned} are owned, not {expected}")

    def check_jobs(self, reason, code):
        """Check that the end is consistent with the ends of the Jobs."""
        ends = [self.world.ends.get(name) for name in self.plan.deciding]
        if code == 0 and not (any if self.plan.decides == "any" else all)(ends):
            self.broken.append(f"succeeded, but the Jobs ended {self.world.ends}")
        failed = [name for name, end in self.world.ends.items() if end is False]
        outside = reason in ("DeadlineExceeded", "JobDeleted", "JobNotCreated")
        if code and not self.gang and not outside and not failed:
            self.broken.append(f"failed with {code}, but no Job has")
        if code and self.plan.decides == "any" and not outside and any(ends):
            self.broken.append("failed, but one of the Jobs has succeeded")
