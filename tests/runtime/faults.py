"""The faults in a history: failures of the gang, and accidents from outside."""

from runtime.controllers import find, is_deleted, is_final
from runtime.ledger import DISRUPTION, EXIT, KILLED, Fact
from runtime.world import EPOCH, HOUR, NODES, NOT_READY

from mlgen.runtime.answers import RECORD
from mlgen.runtime.clock import CLOSE
from mlgen.runtime.cluster import member
from mlgen.runtime.plan import Workload

EVICTION = "EvictionByEvictionAPI"
KINDS = {
    "exit": "gang: a program fails",
    "kill": "gang: a program is killed, or out of memory",
    "crash": "gang: a server crashes",
    "drain": "gang: a pod is drained or preempted",
    "delete": "gang: a pod is deleted",
    "force": "gang: a pod is deleted without a grace period",
    "node": "gang: a node dies; peers fail before its pods are deleted",
    "reboot": "gang: a node dies and comes back",
    "cut": "gang: a node is cut off for some time, and peers fail",
    "device": "gang: a device is unhealthy, and the program goes on or fails",
    "late": "gang: a pod fails after another has succeeded",
}
SERVER = Workload("StatefulSet", "mnist-ps", "ps", retryable="any")
START = (1.0, 20.0)
"""The shortest and longest run of a program that cannot start, in seconds."""
FOREVER = 1e9
LEARNED = 900.0
"""Seconds until a supervisor has learned that a clock was set, even if it only polls."""


class Faults:
    """The part of a `History` that causes faults."""

    def choose(self, jobs, pods):
        kinds = ["exit"] * 4 + ["kill"] * 3 + ["drain", "delete", "force", "node", "node", "reboot"]
        kinds += ["device"]
        kinds += ["cut", "cut"] + ["late"] * (len(jobs) > 1 and not self.calm)
        kinds += ["crash", "crash"] if len(pods) > len(jobs) else []
        kinds = ["exit"] if self.pace == START or (self.calm and self.code) else kinds
        return self.random.choice(kinds)

    def fail_gang(self, session, kind):
        """Let a training gang fail, unless it is already stopped. The peers exit or hang.

        A gang that is about to stop fails later, because another client may resume it.
        """
        pods = session["pods"]
        pods[:] = [pod for pod in pods if self.shape != "elastic" or self.is_up(pod)]
        together = all(map(self.is_up, pods)) and session["goes on"] and pods
        if not together:
            self.failures_left += 1
            return
        # The loss of a pod that no supervisor has seen is not noticed.
        members = self.state().get("members", "").split()
        seen = all(member(pod) in members for pod in pods)
        is_quiet = kind in ("drain", "delete", "force") and not seen
        if is_quiet or self.ledger.is_stopping:
            self.world.after(5.0, self.fail_gang, session, kind)
            return
        session["goes on"] = False
        self.world.faults[KINDS[kind]] += 1
        jobs = [pod for pod in pods if pod["owner"] != SERVER.name]
        fail = {"exit": self.fail_program, "kill": self.fail_program, "late": self.fail_late}
        fail |= {
            "device": self.lose_device,
            "node": self.lose_node,
            "reboot": self.lose_node,
            "cut": self.cut_off,
        }
        gone = fail.get(kind, self.lose_pod)(kind, pods, jobs)
        if kind == "crash":
            self.crash_server(pods)
        elif kind == "cut" or self.is_quiet_loss() or self.random.random() < 0.8:
            for pod in jobs:
                if pod not in gone:
                    self.world.during(self.random.uniform(0.1, 10), self.fail_peer, pod, 1)

    def is_quiet_loss(self):
        """Return True if a loss may be visible only when the peers exit.

        A Job is complete when its last replica exits with 0, also after SIGTERM. Replicas that a
        user has scaled away are not missed. Hanging peers are a stall, which is left out.
        """
        return self.shape == "elastic" or 0 in self.world.on_sigterm

    def choose_code(self, kind):
        """Return an exit code, the reason of its container, and the kind of that failure."""
        random = self.random
        killed = kind == "kill" or (kind != "exit" and random.random() < 0.5)
        codes = (self.code,) if self.code else (137, 137, 139, 143) if killed else (1, 42)
        code = random.choice(codes)
        reason = "OOMKilled" if code == 137 and random.random() < 0.3 else ""
        return code, reason, KILLED if code >= 128 else EXIT

    def fail_program(self, kind, _, jobs):
        code, reason, name = self.choose_code(kind)
        victim = self.random.choice(jobs)
        self.fact(victim, name, code, reason=reason)
        self.world.end_pod(victim, code, reason)
        return [victim]

    def fail_late(self, kind, _, jobs):
        """Let one pod succeed, and another one fail later."""
        if len(jobs) < 2:
            return self.fail_program(kind, None, jobs)
        done, victim = self.random.sample(jobs, 2)
        self.world.end_pod(done, 0)
        self.world.during(6.0, self.fail_peer, victim, self.choose_code(kind)[0])
        return [done, victim]

    def crash_server(self, pods):
        victim = next(pod for pod in pods if pod["owner"] == SERVER.name)
        code, _, name = self.choose_code("crash")
        self.world.during(self.random.uniform(0.1, 2), self.world.crash, victim, code)
        self.fact(victim, name, code)

    def cut_off(self, _, pods, __):
        """Disconnect a node for some time. All programs on it fail."""
        node = self.random.choice(pods)["spec"]["nodeName"]
        seconds = self.random.choice((30.0, 70.0, 150.0, 600.0))
        gone = [pod for pod in pods if pod["spec"]["nodeName"] == node]
        for pod in gone:
            if seconds > NOT_READY:
                self.fact(pod, DISRUPTION, is_sure=False)
            if pod["owner"] != SERVER.name:
                self.world.during(self.random.uniform(0.5, 10), self.fail_peer, pod, 1)
        self.world.silence(node, seconds)
        return gone

    def lose_node(self, kind, pods, _):
        node = self.random.choice(pods)["spec"]["nodeName"]
        gone = [pod for pod in pods if pod["spec"]["nodeName"] == node]
        # A StatefulSet replaces a pod only after its node or the pod itself was deleted.
        served = any(pod["owner"] == SERVER.name for pod in gone)
        served = served and not self.plan.force_delete_seconds
        fate = self.random.choice(("is deleted", "is deleted" if served else "stays"))
        if served and self.plan.pending_seconds:
            self.allowed_ends["PodsNotCreated"] = "a pod on a lost node"
        for pod in gone:
            self.fact(pod, DISRUPTION, is_sure=kind == "node")
            if kind == "reboot":
                # If the pod is deleted meanwhile, the cause of its end is unknown.
                self.fact(pod, KILLED, 137, tells=False)
        self.world.kill_node(node, "reboots" if kind == "reboot" else fate)
        for pod in gone:
            pod["exiting"] = True
        return gone

    def lose_device(self, _, pods, __):
        victim = self.random.choice(pods)
        self.fact(victim, DISRUPTION)
        self.world.lose_device(victim)
        return [] if self.random.random() < 0.5 else [victim]

    def lose_pod(self, kind, pods, _):
        if kind == "crash":
            return []
        victim = self.random.choice(pods)
        self.fact(victim, DISRUPTION)
        if kind == "force":
            self.world.force(victim)
        else:
            why = self.random.choice((EVICTION, "PreemptionByScheduler"))
            self.world.delete_pod(victim, disrupted=why if kind == "drain" else "")
        return [victim]

    def fail_peer(self, pod, code):
        if self.is_up(pod):
            self.fact(pod, KILLED if code >= 128 else EXIT, code)
            self.world.end_pod(pod, code)

    # Accidents from outside

    def accidents(self):
        """Plan the accidents from outside."""
        random, world = self.random, self.world
        accidents = [
            (0.06, 100, self.delete_by_hand),
            (0.15, 200, self.fall_silent),
            (0.15, 200, self.lose_status),
            (0.1, 200, self.apply_again),
            (0.15, 200, self.pause),
            (0.15, 200, self.set_clocks),
            (0.06, 60, self.keep_applying),
            (0.06, 100, self.keep_emptying),
            (0.06, 200, self.remember),
            (0.06, 100, self.refuse_pods),
            (0.12, 30, self.hold_jobs),
            (0.08, 100, self.conflict),
            (0.1, 200, self.end_watch),
            (0.1, 100, self.flood),
            (1.0 if self.shape == "elastic" else 0.0, 100, self.scale),
        ]
        for chance, seconds, what in accidents if not self.calm else ():
            if random.random() < chance and (
                self.gang or what not in (self.apply_again, self.keep_applying, self.pause)
            ):
                world.after(random.uniform(5, seconds), what)
        start, seconds = EPOCH + random.uniform(0, 100), random.choice((5.0, 40.0, FOREVER))
        what = random.random()
        if self.calm:
            return
        if what < 0.1:
            world.outage = (start, start + 300)
        elif self.gang and what < 0.16:
            world.webhook = (start, start + seconds)
            self.allowed_ends["ChangeRefused"] = "a webhook"
        elif self.gang and what < 0.22:
            world.resumer = (start, start + seconds)
            self.allowed_ends["ChangeRefused"] = "another client"

    def apply_again(self):
        if self.ended():
            return
        self.world.faults["the manifests are applied again"] += 1
        self.meddled = True
        held = {order.role for order in self.plan.order}
        for item in self.plan.gang:
            body = self.world.objects.get((item.kind, item.name))
            if body:
                size = {"completions": item.replicas, "parallelism": item.replicas}
                manifest = {**size, "suspend": item.role in held}
                manifest = manifest if item.kind == "Job" else {"replicas": item.replicas}
                note = {"annotations": {RECORD: "waits"}} if item.role in held else {}
                if self.world.change(body, {"spec": manifest, "metadata": note}):
                    self.ledger.is_unclear = True
                    self.ledger.add(Fact(DISRUPTION, is_sure=False))
                self.world.touch(body)

    def keep_applying(self):
        """Let a tool apply the fields that are in Git again and again: each that has changed.

        A role that waits for others has `suspend` in Git, and needs the settings of the docs.
        """
        if self.plan.order or self.shape == "elastic":
            return
        self.world.faults["a tool applies the manifests again and again"] += 1
        self.applies_until = self.world.now + self.random.choice((60.0, 600.0, FOREVER))
        self.apply_fields(self.random.choice((1.0, 5.0, 20.0)))

    def apply_fields(self, pause):
        for item in self.plan.workloads if self.world.now < self.applies_until else ():
            body = self.world.objects.get((item.kind, item.name))
            if body and item.kind == "Job":
                size = {"completions": item.replicas, "parallelism": item.replicas}
                labels = {"labels": {"mlgen.dev/job": "mnist"}}
                if self.world.change(body, {"spec": size, "metadata": labels}):
                    self.world.faults["field of a Job that a tool reverts"] += 1
                    self.world.touch(body)
        if not self.ended():
            self.world.after(pause, self.apply_fields, pause)

    def keep_emptying(self, times=9):
        """Let a tool empty the status again and again, because Git has no data."""
        if times and not self.ended():
            self.lose_status()
            self.world.after(self.random.uniform(1, 20), self.keep_emptying, times - 1)

    def remember(self):
        """Make a snapshot of etcd, which is restored later."""
        snapshot = self.world.snapshot()
        self.world.after(self.random.choice((5.0, 30.0, 100.0)), self.restore, *snapshot)

    def restore(self, version, objects):
        if self.ended():
            return
        self.world.faults["etcd is restored to an older state"] += 1
        self.world.restore(version, objects)
        self.ledger.excuse = "restored"
        self.allowed_ends["JobDeleted"] = "restored"
        self.forgot = self.meddled = True
        self.status_seen.clear()
        self.reported.clear()
        state = self.state()
        self.ledger.restarts = state.get("restarts", 0)
        self.ledger.disruptions = state.get("disruptions", 0)
        for body in self.world.all("Job"):
            conditions = body["status"].get("conditions", ())
            if not find(conditions, "SuccessCriteriaMet") and not find(conditions, "FailureTarget"):
                self.world.ends.pop(body["metadata"]["name"], None)
        for each in self.supervisors:
            if "watch" in each:
                each["watch"].late = None  # waits for a version of the future

    def refuse_pods(self):
        seconds = self.random.choice((20.0, 300.0, 1500.0))
        self.world.quota = (self.world.now, self.world.now + seconds)
        if self.plan.pending_seconds < seconds:
            self.allowed_ends["PodsNotCreated"] = "a quota"

    def hold_jobs(self):
        """Let another program keep Jobs and pods with a finalizer when they are deleted."""
        self.world.faults["Jobs and pods have a finalizer of another program"] += 1
        self.world.kept = self.random.choice((20.0, 300.0))
        for body in self.world.all("Job"):
            seconds = self.random.choice((100.0, 5000.0, FOREVER))
            self.world.hold("Job", body["metadata"]["name"], seconds)

    def conflict(self):
        seconds = self.random.choice((20.0, 200.0, 900.0))
        self.world.conflicts = (self.world.now, self.world.now + seconds)

    def set_clocks(self):
        """Let the clocks of the control plane jump, for good or until they are right again."""
        if not all(each["self"] for each in self.supervisors) or len(self.world.servers) > 1:
            return
        self.world.faults["the clocks of the control plane are set"] += 1
        # A supervisor that starts meanwhile cannot know which clock was right before.
        self.world.immortal = self.world.now + LEARNED
        self.world.ahead += self.random.choice((-HOUR, HOUR))
        self.precision = CLOSE
        if self.random.random() < 0.3:
            self.world.after(self.random.uniform(1, 1000), self.set_clocks)

    def flood(self, left=200):
        """Let a stranger send requests, and a pod more of them than its own."""
        alive = [each["self"] for each in self.supervisors if each["self"]]
        pods = [pod for pod in self.world.all("Pod") if pod["owner"] in self.gang]
        if alive and left:
            self.world.faults["requests of a stranger, and of a pod that sends too many"] += 1
            supervisor, pod = self.random.choice(alive), self.random.choice([*pods, None])
            number = pod.get("number") if pod else None
            query = f"attempt={number}&x={left}" if number else f"after={left}"
            token = pod["metadata"]["uid"] if number else "stranger"
            for path, body in (("/attempt", b""), ("/progress", b'{"a": 1}'), ("/metrics", b"")):
                self.ask(supervisor, query, token, path, body)
        if left:
            self.world.after(self.random.uniform(0.05, 0.5), self.flood, left - 1)

    def end_watch(self):
        """Let the watches end silently."""
        for each in self.supervisors:
            if "watch" in each:
                self.world.faults["a watch gives no more events"] += 1
                each["watch"].late = None

    def delete_by_hand(self):
        name = self.plan.deciding[0]
        if ("Job", name) in self.world.objects and not self.ended():
            self.world.faults["the deciding Job is deleted by hand"] += 1
            self.allowed_ends["JobDeleted"] = "deleted"
            self.ledger.excuse = "deleted"
            self.world.on_write = lambda *_: None
            self.world.delete("Job", name, {})
            self.world.on_write = self.check_write

    def fall_silent(self):
        """Let a node be silent for a while. Its pods continue."""
        node, seconds = self.random.choice(sorted(NODES)), self.random.choice((30.0, 80.0, 300.0))
        if not self.world.is_silenced(node) and not self.ended():
            self.world.faults["a kubelet is silent and comes back, while its pods go on"] += 1
            self.world.silence(node, seconds)
            self.widen(node)

    def widen(self, node):
        """Accept a silent node as the cause of other failures, as long as it is silent."""
        if self.world.is_silenced(node):
            fact = Fact(DISRUPTION, is_sure=False, tells=False)
            if fact not in self.ledger.facts[self.ledger.attempt]:
                self.ledger.add(fact)
            self.world.after(0.5, self.widen, node)

    def widen_now(self, job):
        """Another client has resumed a Job. A supervisor may only notice deleted pods."""
        if job["metadata"]["name"] in self.gang:
            self.meddled = True
            self.ledger.add(Fact(DISRUPTION, is_sure=False))

    def lose_status(self):
        if not self.ended():
            self.world.faults["the status is lost"] += 1
            # With several clocks and no status, nobody knows the time.
            is_known = self.world.now > self.world.immortal and len(self.world.servers) == 1
            if self.random.random() < 0.5 and is_known:
                self.world.faults["the status is lost, and all supervisors die"] += 1
                for each in self.supervisors:
                    each["client"].doomed = True
                self.ledger.forget()
                if self.plan.in_place:
                    self.ledger.excuse = "no Job has the number of an attempt that began in place"
            body = self.world.objects["ConfigMap", "mnist.status"]
            body["data"] = {}
            self.forgot = True
            self.status_seen.clear()
            self.world.touch(body)

    def pause(self):
        """Let the user suspend all running Jobs, and resume them later."""
        jobs = [body for body in self.workloads(self.gang) if body["kind"] == "Job"]
        jobs = [body for body in jobs if not body["spec"]["suspend"]]
        if self.ended() or self.ledger.is_stopping or not jobs:
            return
        self.world.faults["the user suspends and resumes the job"] += 1
        self.ledger.is_unclear = True
        for body in jobs:
            self.world.change(body, {"spec": {"suspend": True}})
            self.world.touch(body)
        self.resume_after(self.random.choice((3.0, 90.0, 700.0)), jobs)

    def resume_after(self, seconds, jobs):
        start, end = self.world.outage
        if seconds < 60 or start < self.world.now + seconds < end + 60:
            # A supervisor that misses this only notices deleted pods.
            self.ledger.add(Fact(DISRUPTION, is_sure=False))
        self.world.after(seconds, self.go_on, jobs)

    def go_on(self, jobs):
        self.meddled = True
        gang = [pod for pod in self.world.all("Pod") if pod["owner"] in self.gang]
        if any(is_deleted(pod) and not is_final(pod) for pod in gang):
            # Pods of the previous run still exist, as after a deletion.
            self.ledger.add(Fact(DISRUPTION, is_sure=False))
        for pod in self.world.all("Pod"):
            if pod["owner"] == SERVER.name:
                pod.pop("session", None)  # serves the new workers
        for body in jobs:
            if self.world.objects.get(("Job", body["metadata"]["name"])) is body:
                self.world.change(body, {"spec": {"suspend": False}})
                self.world.touch(body)

    def scale(self):
        """Let the user give an elastic Job another size."""
        job = self.world.objects.get(("Job", "mnist-worker"))
        if job and not self.ended() and not self.ledger.is_stopping:
            self.world.faults["the user scales an elastic job"] += 1
            self.ledger.is_unclear = True
            size = self.random.choice((1, 2, 3, 5))
            known = self.state().get("members", "").split()
            if len(known) != job["spec"]["completions"]:
                # Only the index of a missing pod would identify it.
                self.ledger.add(Fact(DISRUPTION, is_sure=False))
            self.world.change(job, {"spec": {"completions": size, "parallelism": size}})
            self.world.touch(job)
