"""Plays a round: a job is disturbed, and must end as documented."""

import random
import secrets
import sys
import tempfile
import time
from pathlib import Path

from faults import memory, supervisor
from jobs import BYSTANDER, ENDS, IN_PLACE, RESTARTS, STARTS, TRAINS, options, problems_of_steps

KINDS = "jobs,statefulsets,pods,services,configmaps,serviceaccounts,roles,rolebindings"
MEMORY = 64
"""Memory limit of a small job's supervisor in MB: the request of its pod."""

UNTIL_MOMENT = 120
"""Seconds within which a job must reach the moment of the round."""

PAUSES = {STARTS: 4.0, TRAINS: 1.0, RESTARTS: 14.0, ENDS: 2.0}
"""The most seconds from that moment to the fault."""


class Play:
    """Plays one round."""

    def __init__(self, cluster, turn):
        self.cluster, self.turn = cluster, turn
        self.job = turn.job
        self.namespace = f"chaos-{turn.number}-{secrets.token_hex(2)}"
        self.chance = random.Random(f"{turn.seed} {turn.number}")
        self.began = time.monotonic()
        self.supervisor = 0

    def say(self, text):
        line = f"{time.monotonic() - self.began:6.1f} s  {text}"
        if not self.turn.history or self.turn.history[-1][10:] != line[10:]:
            self.turn.history.append(line)

    def kubectl(self, *words, stdin=None):
        return self.cluster.kubectl("-n", self.namespace, *words, stdin=stdin)

    def get(self, *words):
        return self.cluster.json("-n", self.namespace, "get", *words)

    def mlgen(self, *words):
        return self.cluster.run(sys.executable, "-m", "mlgen", *words)

    def run(self):
        with tempfile.TemporaryDirectory() as folder:
            self.data = Path(folder)
            self.data.chmod(0o777)
            self.options = [*options(self.data), "-n", self.namespace]
            self.kubectl("create", "namespace", self.namespace)
            self.until("an account", lambda: self.get("serviceaccount", "default")["metadata"])
            try:
                self.play()
            finally:
                self.cluster.mend()
                self.kubectl("delete", "jobs", "--all", "--wait=false")
                self.kubectl("delete", "namespace", self.namespace, "--wait=false")

    def play(self):
        self.apply(BYSTANDER)
        self.until("the bystander runs", lambda: "Running" in self.record(BYSTANDER))
        self.until("all of it runs", lambda: self.is_running(BYSTANDER))
        before = self.bystander()
        self.names = self.listed()
        faults = [each(self.cluster, self.namespace, self.job.name) for each in self.turn.faults]
        try:
            for fault in faults:
                fault.prepare()
            self.began = time.monotonic()
            self.apply(self.job)
            self.await_moment()
            for fault in faults:
                self.disturb(fault)
            self.await_end()
            self.inspect(before)
        finally:
            for fault in faults:
                fault.end()
        self.clean()

    def inspect(self, before):
        """Compare the result with the documentation."""
        self.turn.seconds = time.monotonic() - self.began
        self.turn.problems += self.found(before)
        if self.turn.problems:
            self.explain()

    def apply(self, job):
        done = self.mlgen("render", str(job.file), *self.options_of(job))
        done = self.kubectl("apply", "-f", "-", stdin=done.stdout)
        if done.returncode:
            raise RuntimeError(done.stderr)

    def options_of(self, job):
        """Return the options of mlgen for a job."""
        return [*self.options, *(IN_PLACE if self.turn.in_place and job is not BYSTANDER else [])]

    def until(self, what, poll, seconds=UNTIL_MOMENT):
        """Poll until the condition is true; return False after a timeout."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.answer(poll):
                return True
            time.sleep(0.2)
        self.turn.problems.append(f"not within {seconds:.0f} s: {what}")
        return False

    def answer(self, poll):
        try:
            return poll()
        except (KeyError, IndexError, ValueError):
            return None

    def await_moment(self):
        """Wait until the job reaches the moment of the round, and then for the drawn delay."""
        steps = self.chance.randint(1, 3)
        polls = {
            STARTS: lambda: True,
            TRAINS: lambda: self.steps() >= steps,
            RESTARTS: lambda: self.watch().get("Restarting", "").startswith("True"),
            ENDS: lambda: self.watch() and (self.data / "last").exists(),
        }
        self.until(f"it {self.turn.moment}", polls[self.turn.moment])
        time.sleep(self.chance.uniform(0.0, PAUSES[self.turn.moment]))

    def steps(self):
        """Return the steps of the first host. A job that records no steps has 3 once it runs."""
        if not self.job.steps:
            return 3 if "Running" in self.watch() else 0
        file = self.data / f"checkpoint-{self.job.steps[0][0]}"
        return int(file.read_text()) if file.exists() else 0

    def disturb(self, fault):
        self.say(fault.strike())
        struck = time.monotonic()
        time.sleep(self.chance.uniform(*fault.seconds))
        fault.heal()
        self.turn.broken += time.monotonic() - struck
        self.say(f"healed: {fault.name}")

    def await_end(self):
        deadline = self.began + self.turn.calm + self.turn.broken + self.turn.bound
        while time.monotonic() < deadline:
            record = self.watch()
            ended = any(record.get(key, "").startswith("True") for key in ("Succeeded", "Failed"))
            if ended and self.has_ended("supervisor") and self.has_ended(self.job.deciding):
                return
            time.sleep(0.5)
        self.turn.problems.append(f"has not ended {self.turn.bound} s late")

    def has_ended(self, role):
        job = self.get("job", f"{self.job.name}-{role}")
        conditions = job.get("status", {}).get("conditions", [])
        found = {each["type"] for each in conditions if each["status"] == "True"}
        # A Job with a pod on a lost node is complete when that is deleted.
        return {"Complete", "SuccessCriteriaMet", "Failed", "FailureTarget"} & found

    def record(self, job):
        return self.get("configmap", f"{job.name}.status").get("data") or {}

    def watch(self):
        """Return the record, and add its changes to the history."""
        if not self.supervisor or not memory(self.supervisor):
            self.supervisor = supervisor(self.cluster, self.namespace, self.job.name)
        self.turn.memory = max(self.turn.memory, memory(self.supervisor))
        record = self.record(self.job)
        true = [key for key, text in record.items() if text.startswith("True ")]
        if true:
            text = record[true[-1]].split(" ", 2)[2]
            self.say(f"{true[-1]}: {text}; restarts {record.get('restarts')}")
        return record

    def is_running(self, job):
        pods = self.trainers(job)
        return pods and all(pod["status"]["phase"] == "Running" for pod in pods)

    def trainers(self, job):
        """Return the pods of a job, without the supervisor's pod."""
        pods = self.get("pods", "-l", f"mlgen.dev/job={job.name}")["items"]
        roles = [pod["metadata"]["labels"]["mlgen.dev/role"] for pod in pods]
        return [pod for pod, role in zip(pods, roles, strict=True) if role != "supervisor"]

    def bystander(self):
        """Return the fields of the other job that must not change."""
        workloads = self.get("jobs,statefulsets", "-l", f"mlgen.dev/job={BYSTANDER.name}")["items"]
        generations = {
            (each["kind"], each["metadata"]["name"]): each["metadata"]["generation"]
            for each in workloads
        }
        uids = {
            (pod["metadata"]["uid"], pod["status"]["phase"]) for pod in self.trainers(BYSTANDER)
        }
        return generations, uids, self.record(BYSTANDER).get("restarts")

    def found(self, before):
        """Yield the deviations from the documentation."""
        job, record = self.job, self.record(self.job)
        kind = "Succeeded" if job.reason == "JobSucceeded" else "Failed"
        if f" {job.reason}: " not in record.get(kind, "") or "True " not in record[kind]:
            yield f"has not {kind} with {job.reason}"
        if not job.restarts <= int(record.get("restarts", 0)) <= job.restarts + job.spare:
            yield f"restarts: {record.get('restarts')}, not {job.restarts}"
        allowed = sum(fault.disruptions for fault in self.turn.faults)
        if int(record.get("disruptions", 0)) > allowed:
            yield f"disruptions: {record.get('disruptions')}"
        yield from problems_of_steps(job, self.data)
        if self.bystander() != before:
            yield f"the bystander was touched: {before} {self.bystander()}"
        events = [each for each in self.get("events")["items"] if self.is_told(each)]
        restarts = [each for each in events if each["reason"] == "JobRestarting"]
        if len(restarts) > int(record.get("restarts", 0)) + 1 + allowed:
            yield f"{len(restarts)} events JobRestarting"
        if self.turn.memory > MEMORY:
            yield f"the supervisor had {self.turn.memory} MB"
        if job.cleans:
            self.until("it is cleaned up", self.is_clean, 30)

    def is_told(self, event):
        by_supervisor = event.get("source", {}).get("component") == "mlgen-supervisor"
        return by_supervisor and event["involvedObject"]["name"].startswith(self.job.name)

    def is_clean(self):
        return not [pod for pod in self.trainers(self.job) if is_active(pod)]

    def explain(self):
        """Add the information that helps to debug a deviation to the history."""
        for words in (
            ("get", "pods,jobs,statefulsets", "-o", "wide"),
            ("get", "configmap", f"{self.job.name}.status", "-o", "jsonpath={.data}"),
            ("logs", f"job/{self.job.name}-supervisor", "--tail=40"),
            ("get", "events", "--sort-by=.lastTimestamp"),
        ):
            done = self.kubectl(*words)
            self.turn.history += ["", *(done.stdout + done.stderr).splitlines()[-45:]]
        self.turn.history += [
            f"{file.name}: {file.read_text()}" for file in self.data.glob("steps-*")
        ]

    def clean(self):
        """Delete the job as a user does, and check that no object is left."""
        self.cluster.mend()
        done = self.mlgen("delete", str(self.job.file), *self.options_of(self.job), "--yes")
        if done.returncode:
            self.turn.problems.append(f"mlgen delete: {done.stdout}{done.stderr}")
        if left := self.listed() - self.names:
            self.turn.problems.append(f"left: {', '.join(sorted(left))}")

    def listed(self):
        done = self.kubectl("get", KINDS, "-o", "name")
        return {name for name in done.stdout.split() if BYSTANDER.name not in name}


def is_active(pod):
    return pod["status"]["phase"] in ("Pending", "Running")
