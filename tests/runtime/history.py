"""One random history of one job, and what must hold after it."""

import copy
import json
from dataclasses import replace
from functools import partial
from random import Random

from runtime import rights
from runtime.world import EPOCH, Client, Killed, World

from mlgen.runtime.cluster import trimmed
from mlgen.runtime.plan import Order, Plan, Workload
from mlgen.runtime.status import member
from mlgen.runtime.supervise import Supervisor

LIMIT = 3 * 3600.0
"""The bound on the virtual time of a history."""

PHASES = ("BackingOff", "Starting", "Running", "Stopping", "Ended")
"""In the order of one attempt: a new one begins with BackingOff."""

PODS = {
    "code": "a pod fails",
    "crash": "a server crashes, or a pod fails",
    "drain": "a pod is drained",
    "delete": "a pod is deleted",
    "force": "a pod is deleted without a grace period",
    "lost": "a pod is on a lost node",
}
SHAPES = ("worker", "master", "server", "initializer", "ready", "all", "any", "replica")

WORKER = Workload("Job", "mnist-worker", "worker", retryable=">=128")
MASTER = Workload("Job", "mnist-master", "master", retryable=">=128")
SERVER = Workload("StatefulSet", "mnist-ps", "ps", retryable="any")
STRANGERS = ("other", "mnist-x")
"""Services of another job; one has a name that is in the plan."""
INITIALIZER = Workload("Job", "mnist-initializer", "initializer")


class Watch:
    """Tells a supervisor of each change of a pod: at once, late, or never."""

    def __init__(self, world, late, pods, ring):
        self.world, self.late, self.pods, self.ring = world, late, pods, ring
        pods.hear("LISTED", world.list("Pod", trimmed, labelSelector="mlgen.dev/job=mnist"))
        world.watches.append(self)

    def see(self, pod):
        if self.late is None:
            self.world.faults["event of a watch that is dead"] += 1
        elif pod["metadata"]["labels"]["mlgen.dev/job"] == "mnist":
            change = "MODIFIED" if self.world.exists(pod) else "DELETED"
            self.world.faults[f"event of a watch that is {self.late} s late"] += 1
            self.world.after(self.late, self.tell, change, trimmed(copy.deepcopy(pod)))

    def tell(self, change, pod):
        self.pods.hear(change, [pod])
        self.ring()


class History:
    """A job, what goes wrong with it and with its supervisors, and how it has to end."""

    def __init__(self, seed):
        self.random = random = Random(seed)
        self.world = world = World(random)
        self.shape = random.choice(SHAPES)
        self.limit = random.choice((0, 1, 2, 3))
        self.plan = self.make_plan()
        self.gang = {item.name for item in self.plan.gang} - {INITIALIZER.name}
        self.members = self.gang or {item.name for item in self.plan.workloads}
        self.failures_left = random.choice((0, 0, 1, 1, 2, 3, 4))
        self.expected = 0
        self.ambiguous = False
        self.counted = 0
        self.broken = []
        self.failed_attempt = -1
        self.status_seen = []
        self.reported = set()
        rate = random.choice((0.0, 0.02, 0.1, 0.25))
        self.lost_bells = random.choice((0.0, 0.3, 1.0))
        world.moves = random.choice((True, True, False))
        self.make_objects()
        world.on_pod_running = self.pod_running
        world.on_pod_created = self.pod_created
        self.supervisors = [
            {"skew": random.choice((0, 0, -20, 20)), "at": EPOCH + i * 3, "self": None}
            for i in range(random.choice((1, 1, 2)))
        ]
        self.depth = 0
        self.rate = rate
        world.faults["supervisor whose clock is 20 s wrong"] += sum(
            bool(each["skew"]) for each in self.supervisors
        )
        world.faults["second supervisor at the same time"] += len(self.supervisors) - 1
        for each in self.supervisors:
            each["client"] = Client(world, random, rate, partial(self.between, each))
        world.bells.append(self.ring)

    # The job

    def make_plan(self):
        random = self.random
        n = random.choice((1, 2, 3, 4))
        self.retryable = random.choice((">=128", (137, 138)))
        worker = replace(WORKER, replicas=n, retryable=self.retryable)
        master = replace(MASTER, retryable=self.retryable)
        plan = Plan(
            job="mnist",
            run="run-2",
            deciding=("mnist-worker",),
            workloads=(worker,),
            restart_scope="All",
            backoff_limit=self.limit,
            clean_pod_policy=random.choice(("None", "Running", "All")),
            ttl_seconds=random.choice((None, None, 100)),
            deadline_seconds=random.choice((None, None, None, 40, 5000)),
            avoid_nodes=random.choice((False, True)),
        )
        if plan.clean_pod_policy == "All" or plan.ttl_seconds:
            plan = replace(plan, objects=(("Service", "mnist"), ("Service", "mnist-x")))
        if self.shape == "master":
            return replace(plan, deciding=("mnist-master",), workloads=(master, worker))
        if self.shape == "server":
            scope = self.random.choice(("All", ("worker", "ps")))
            return replace(plan, workloads=(SERVER, worker), restart_scope=scope)
        if self.shape == "initializer":
            order = (Order("worker", "Complete", "initializer"),)
            return replace(plan, workloads=(INITIALIZER, worker), order=order)
        if self.shape == "ready":
            return replace(
                plan, workloads=(SERVER, worker), order=(Order("worker", "Ready", "ps"),)
            )
        plan = replace(plan, restart_scope="Replica")
        if self.shape in ("all", "any"):
            names = ("mnist-master", "mnist-worker")
            return replace(plan, deciding=names, decides=self.shape, workloads=(master, worker))
        return replace(plan, deciding=("mnist-master",), workloads=(master, worker, SERVER))

    def make_objects(self):
        world, plan = self.world, self.plan
        held = {order.role for order in plan.order}
        stale = {"state": json.dumps({"run": "run-1", "phase": "Ended", "ended": 1.0, "code": 0})}
        data = self.random.choice(({}, {**stale, "Succeeded": "True 2026-01-01T00:00:00Z A: b"}))
        world.put("ConfigMap", "mnist-status", data=data)
        world.put("Service", "mnist")
        world.put("ConfigMap", "other-status", data={})
        for name in STRANGERS:
            world.put("Service", name, metadata={"labels": {"mlgen.dev/job": "other"}})
        for job, items in (("mnist", plan.workloads), ("other", (WORKER,))):
            for item in items:
                metadata = {"labels": {"mlgen.dev/job": job}}
                suspended = job == "mnist" and item.role in held
                spec = {
                    "completions": item.replicas,
                    "parallelism": item.replicas,
                    "backoffLimit": 2**31 - 1,
                    "backoffLimitPerIndex": 2**31 - 1,
                    "suspend": suspended,
                    "template": {"spec": {}},
                }
                if item.kind == "StatefulSet":
                    spec = {"replicas": item.replicas}
                elif not self.gang or item is INITIALIZER:
                    del spec["backoffLimitPerIndex"]
                    spec.update(backoffLimit=self.limit, podFailurePolicy=True)
                name = item.name if job == "mnist" else "other-worker"
                # A deadline that two clocks disagree on may end the job before it all exists.
                late = job == "mnist" and plan.deadline_seconds != 40
                at = self.random.choice((0.0, 0.0, 2.0)) if late else 0.0
                world.after(at, self.apply, item.kind, name, metadata, spec)

    def apply(self, kind, name, metadata, spec):
        self.world.put(kind, name, metadata=metadata, spec=spec)

    # What pods do

    def state(self):
        """Return the state that is stored for this run."""
        data = self.world.objects["ConfigMap", "mnist-status"].get("data", {})
        state = json.loads(data.get("state", "{}"))
        return state if state.get("run") == self.plan.run else {}

    def attempt(self):
        state = self.state()
        return state.get("restarts", 0) + state.get("disruptions", 0)

    def owner(self, pod):
        return next(
            (
                body["metadata"]["name"]
                for body in self.world.objects.values()
                if body["metadata"]["uid"] == pod["metadata"]["ownerReferences"][0]["uid"]
            ),
            None,
        )

    def pod_created(self, pod):
        owner = self.owner(pod)
        if owner not in self.gang:
            return
        pod["attempt"] = self.attempt()
        avoids = self.plan.avoid_nodes and self.world.moves and owner != SERVER.name
        if avoids and pod["spec"]["nodeName"] in self.state().get("avoid", "").split():
            self.broken.append("a pod is on a node that is to be avoided")
        for other in self.world.all("Pod"):
            live = other["status"]["phase"] in ("Pending", "Running") and not other.get("lost")
            if other.get("attempt", pod["attempt"]) < pod["attempt"] and live:
                self.broken.append("a new pod met an old one")

    def peers(self):
        return [p for p in self.world.all("Pod") if self.owner(p) in self.members]

    def pod_running(self, pod):
        owner = self.owner(pod)
        if owner == "other-worker" or owner is None:
            return
        if owner not in self.members or owner == "mnist-initializer":
            self.world.after(self.random.uniform(1, 20), self.world.end_pod, pod, 0)
            return
        running = [p for p in self.peers() if self.world.is_running(p) and not p.get("exiting")]
        wanted = sum(item.replicas for item in self.plan.workloads if item.name in self.members)
        if not self.gang:
            self.replica_running(pod, owner)
        elif len(running) == wanted and self.attempt() > self.failed_attempt:
            # A gang that has lost a member cannot go on, even if it is replaced.
            self.gang_running(running)

    def replica_running(self, pod, owner):
        if owner == "mnist-ps":
            return
        code, seconds = 0, self.random.uniform(5, 60)
        if self.failures_left:
            self.failures_left -= 1
            code = self.random.choice((0, 1, 137))
            if self.random.random() < 0.3:
                self.world.faults["replica drained"] += 1
                self.world.after(seconds / 2, lambda: self.world.delete_pod(pod, disrupted=True))
        self.world.faults["replica exits with an error"] += code > 0
        self.world.after(seconds, self.world.end_pod, pod, code)

    def gang_running(self, running):
        """Let the gang train; then it succeeds, or one pod is the first to fail."""
        world, random = self.world, self.random
        seconds = random.uniform(0.5, 60)
        jobs = [p for p in running if self.owner(p) != "mnist-ps"]
        workers = [p for p in jobs if self.owner(p) == "mnist-worker"]
        if not self.failures_left and len(workers) > 1 and random.random() < 0.2:
            self.failed_attempt = self.attempt()
            world.after(seconds, self.fail_after_success, workers, random.choice((1, 137)))
        elif not self.failures_left:
            for pod in jobs:
                world.after(seconds + random.uniform(0, 2), world.end_pod, pod, 0)
            return
        self.failures_left -= 1
        kind = random.choice(("code", "code", "code", "drain", "delete", "force", "lost", "crash"))
        world.after(seconds, self.fail_gang, running, kind)

    def fail_gang(self, running, kind):
        world, random = self.world, self.random
        together = all(world.is_running(p) and not p.get("exiting") for p in running)
        # A pod that is replaced before any supervisor has seen it is not noticed.
        members = self.state().get("members", "").split()
        seen = all(member(pod["metadata"]["uid"]) in members for pod in running)
        unseen = kind not in ("code", "crash") and not seen
        if together and (unseen or self.state().get("phase") not in ("Starting", "Running", None)):
            world.after(5.0, self.fail_gang, running, kind)
            return
        if not together:
            self.failures_left += 1  # something else has stopped the gang
            return
        servers = [p for p in running if self.owner(p) == "mnist-ps"]
        jobs = [p for p in running if p not in servers]
        victim = random.choice(running)
        world.faults[f"gang: {PODS[kind]}"] += 1
        self.failed_attempt = self.attempt()
        if kind in ("code", "crash"):
            code = random.choice((1, 42, 137, 137, 143))
            if kind == "crash" and servers:
                victim = servers[0]
                at = random.uniform(0.1, 2)
                world.after(at, self.crash, victim, code)
                retryable = True
            else:
                victim = random.choice(jobs)
                retryable = replace(WORKER, retryable=self.retryable).is_retryable(code)
                world.end_pod(victim, code)
            self.counted += retryable
            if not retryable or self.counted > self.limit:
                self.expected = code
                self.failures_left = 0
        elif kind == "force":
            world.remove_pod(victim)
        else:
            world.delete_pod(victim, disrupted=kind == "drain", lost=kind == "lost")
        if random.random() < 0.7 and kind != "crash":
            for pod in jobs:
                if pod is not victim:
                    world.after(random.uniform(0.1, 2.5), world.end_pod, pod, 1)

    def fail_after_success(self, workers, code):
        """Let one worker succeed and another fail later: the gang cannot start again."""
        if all(self.world.is_running(p) and not p.get("exiting") for p in workers):
            self.world.faults["gang: a pod fails after another has succeeded"] += 1
            self.expected = code
            self.world.end_pod(workers[0], 0)
            self.world.after(6.0, self.world.end_pod, workers[1], code)
        else:
            self.failed_attempt = -1

    def crash(self, pod, code):
        """Let a container fail and restart in its pod."""
        if self.world.is_running(pod):
            each = pod["status"]["containerStatuses"][0]
            each["restartCount"] += 1
            at = self.world.get("Pod", pod["metadata"]["name"])["metadata"]["creationTimestamp"]
            each["lastState"] = {
                "terminated": {"exitCode": code, "finishedAt": at, "reason": "Error"}
            }
            self.world.touch(pod)

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

    def step(self, each):
        world = self.world
        if each.get("done"):
            return
        if each["self"] is None:
            each["self"] = Supervisor(
                self.plan, each["client"], lambda: world.now + each["skew"], self.log
            )
            late = self.random.choice((0.0, 0.0, 0.5, 9.0, None))
            each["watch"] = Watch(world, late, each["self"].pods, partial(self.wake, each))
        try:
            delay = each["self"].step()
        except Killed:
            each["self"] = None
            world.watches.remove(each["watch"])
            each["at"] = world.now + self.random.choice((0.0, 2.0, 40.0))
            return
        if each["self"].exit_code is not None:
            each["done"] = True
        each["at"] = world.now + max(delay, 0.01)

    def log(self, line):
        """Record nothing; replaced to read a history."""

    def check_writes(self):
        world, plan = self.world, self.plan
        named = {(item.kind, item.name) for item in plan.workloads}
        for verb, kind, name, body in world.writes:
            if (kind, name) == ("ConfigMap", "mnist-status") and verb in ("patch", "create"):
                state = (body.get("data") or {}).get("state")
                if state:
                    self.check_status(json.loads(state))
            elif verb == "delete":
                if plan.clean_pod_policy != "All" or (kind, name) not in named | set(plan.objects):
                    self.broken.append(f"deleted {kind} {name}")
            elif (verb, kind) == ("create", "Event"):
                self.check_event(body)
            elif (kind, name) in plan.objects and list(body["metadata"]) == ["ownerReferences"]:
                pass
            elif (kind, name) not in named or verb != "patch":
                self.broken.append(f"wrote {verb} {kind} {name}")
        world.writes.clear()

    def check_event(self, event):
        known = (event["reason"], event["message"], event["firstTimestamp"])
        if known in self.reported:
            self.broken.append(f"event {known} twice")
        self.reported.add(known)

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
        if state.get("restarts", 0) > self.limit:
            self.broken.append("restarted too often")
        self.status_seen.append((rank, state))

    # Accidents from outside

    def accidents(self):
        random = self.random
        if random.random() < 0.1:
            start = EPOCH + random.uniform(0, 100)
            self.world.outage = (start, start + 300)
        if self.gang and random.random() < 0.2:
            at = random.uniform(5, 200)
            self.world.after(at, self.apply_again)
        if random.random() < 0.08:
            self.world.after(random.uniform(5, 100), self.delete_by_hand)

    def apply_again(self):
        if self.ended():
            return
        self.world.faults["the manifests are applied again"] += 1
        held = {order.role for order in self.plan.order}
        # A gang whose user stops it right after a failure starts again.
        self.ambiguous |= bool(held and self.failed_attempt == self.attempt())
        for item in self.plan.gang:
            body = self.world.objects.get((item.kind, item.name))
            if body:
                manifest = {"suspend": item.role in held}
                body["spec"].update(manifest if item.kind == "Job" else {"replicas": item.replicas})
                body["metadata"]["generation"] += 1
                self.world.touch(body)

    def delete_by_hand(self):
        name = self.plan.deciding[0]
        if ("Job", name) in self.world.objects and not self.ended():
            self.world.faults["the deciding Job is deleted by hand"] += 1
            self.ambiguous = True
            self.world.delete("Job", name, {})
            self.world.writes.pop()

    def ended(self):
        return self.state().get("phase") == "Ended"

    def run(self):
        """Play the history; return what is broken."""
        self.accidents()
        world = self.world
        while not all(each.get("done") for each in self.supervisors):
            due = min((e for e in self.supervisors if not e.get("done")), key=lambda e: e["at"])
            world.advance(max(world.now, min(due["at"], world.next_time())))
            if due["at"] <= world.now:
                self.step(due)
                self.check_writes()
            if world.now > EPOCH + LIMIT:
                return [*self.broken, "hangs"]
            if self.broken:
                return self.broken
        world.advance(world.now + 120)
        self.check_end()
        return self.broken

    def check_end(self):
        state = self.status_seen[-1][1]
        world, plan = self.world, self.plan
        reason, code = state.get("reason"), state.get("code", 0)
        if not self.ended():
            self.broken.append("not ended")
        codes = {each["self"].exit_code for each in self.supervisors if each["self"]}
        if codes - {code}:
            self.broken.append(f"exit codes {codes}, not {code}")
        timed = reason == "DeadlineExceeded" and plan.deadline_seconds is not None
        if self.gang and not self.ambiguous and not timed and code != self.expected:
            self.broken.append(f"ended {reason} with {code}, not {self.expected}")
        self.check_jobs(reason, code)
        live = {
            self.owner(pod)
            for pod in world.all("Pod")
            if pod["status"]["phase"] in ("Pending", "Running") and not pod.get("lost")
        } - {"other-worker"}
        if plan.clean_pod_policy != "None" and live:
            self.broken.append(f"{live} still run")
        if code and live & set(plan.deciding):
            self.broken.append("the deciding Job still runs")
        self.check_cleaned()
        refused = rights.missing(self.requests(), plan)
        if refused:
            self.broken.append(f"the Role does not allow {refused}")

    def requests(self):
        """Return the rights that the supervisors have used."""
        used = {request for each in self.supervisors for request in each["client"].requests}
        return used.union(rights.watched(self.plan))

    def check_cleaned(self):
        """Check that the whole set is deleted, or will be with the supervisor's Job."""
        world, plan = self.world, self.plan
        kinds = ("Job", "StatefulSet", "Service")
        left = {name for kind, name in world.objects if kind in kinds}
        if plan.clean_pod_policy == "All":
            expected = {*STRANGERS, "other-worker"}
            if left != expected:
                self.broken.append(f"{left} are left")
        else:
            owned = {
                name
                for (kind, name), body in world.objects.items()
                if kind in kinds and body["metadata"].get("ownerReferences")
            }
            expected = left - {*STRANGERS, "other-worker"} if plan.ttl_seconds else set()
            if owned != expected:
                self.broken.append(f"{owned} are owned, not {expected}")

    def check_jobs(self, reason, code):
        """Check the end against those of the Jobs, for which no single truth is planned."""
        ends = [self.world.ends.get(name) for name in self.plan.deciding]
        if code == 0 and not (any if self.plan.decides == "any" else all)(ends):
            self.broken.append(f"succeeded, but the Jobs ended {self.world.ends}")
        failed = [name for name, end in self.world.ends.items() if end is False]
        outside = reason in ("DeadlineExceeded", "JobDeleted", "JobNotCreated")
        if code and not self.gang and not outside and not failed:
            self.broken.append(f"failed with {code}, but no Job has")
        if code and self.plan.decides == "any" and not outside and any(ends):
            self.broken.append("failed, but one of the Jobs has succeeded")
