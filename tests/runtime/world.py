"""A model of a cluster: API server, Job and StatefulSet controllers, kubelets, and what goes wrong.

It has the interface of `mlgen.runtime.api.Api`, no sockets and a clock of its own. All chance comes
from one seed.
"""

import copy
import heapq
import itertools
import json
from collections import Counter

from runtime import rights

from mlgen.runtime.api import CONFLICT, NOT_FOUND, ApiError
from mlgen.runtime.cluster import PREFERRED
from mlgen.runtime.status import stamp

EPOCH = 1_800_000_000.0
INVALID = 422
GRACE = 30.0
FAULTS = {
    "before": "connection lost before a request",
    "after": "connection lost after a request was done",
    "409": "409 Conflict",
    "429": "429 Too Many Requests",
    "killed": "supervisor killed before a request",
    "killed after": "supervisor killed after a request",
}


NODES = {"a", "b", "c", "d"}
"""One more than are avoided."""


def avoided(owner):
    """Return the nodes that the template of a Job does not prefer."""
    affinity = owner["spec"].get("template", {}).get("spec", {}).get("affinity", {})
    terms = affinity.get("nodeAffinity", {}).get(PREFERRED, [])
    fields = [field for term in terms for field in term["preference"]["matchFields"]]
    return {name for field in fields for name in field["values"]}


class Killed(BaseException):
    """The supervisor dies here."""


class World:
    """The objects of one namespace, and the controllers that act on them."""

    namespace = "team"

    def __init__(self, random, job="mnist"):
        self.random = random
        self.job = job
        self.now = EPOCH
        self.objects = {}
        self.versions = itertools.count(1)
        self.uids = itertools.count(1)
        self.order = itertools.count()
        self.events = []
        self.bells = []
        self.watches = []
        self.writes = []
        self.dirty = True
        self.tick_at = self.now
        self.lags = random.choice(((0.1, 0.1, 0.5, 3.0), (0.1, 0.5, 20.0)))
        self.ends = {}
        self.outage = (0.0, 0.0)
        self.moves = True
        self.faults = Counter()
        self.on_pod_running = lambda *_: None
        self.on_pod_created = lambda *_: None

    # The API server

    def put(self, kind, name, **fields):
        metadata = fields.pop("metadata", {})
        body = {
            "kind": kind,
            "metadata": {
                "name": name,
                "uid": f"{kind}-{next(self.uids)}",
                "creationTimestamp": stamp(self.now),
                "generation": 1,
                "labels": {} if name.endswith("-status") else {"mlgen.dev/job": self.job},
                **metadata,
            },
            "status": {},
            **fields,
        }
        self.objects[kind, name] = body
        self.touch(body)
        return body

    def touch(self, body):
        body["metadata"]["resourceVersion"] = str(next(self.versions))
        self.dirty = True
        for watch in self.watches if body["kind"] == "Pod" else ():
            watch.see(body)
        for bell in self.bells:
            bell()

    def all(self, kind):
        return [body for (each, _), body in self.objects.items() if each == kind]

    def get(self, kind, name, _version=""):
        try:
            return copy.deepcopy(self.objects[kind, name])
        except KeyError:
            raise ApiError(f"{kind} {name}", NOT_FOUND) from None

    def list(self, kind, keep, **selectors):
        key, value = selectors["labelSelector"].split("=")
        items = [b for b in self.all(kind) if b["metadata"]["labels"].get(key) == value]
        return [keep(each) for each in copy.deepcopy(items)]

    def create(self, kind, body):
        name = body["metadata"]["name"]
        if (kind, name) in self.objects:
            raise ApiError("exists", CONFLICT)
        self.writes.append(("create", kind, name, body))
        return copy.deepcopy(self.put(kind, name, **copy.deepcopy(body)))

    def patch(self, kind, name, body, subresource=""):
        if (kind, name) not in self.objects:
            raise ApiError(f"{kind} {name}", NOT_FOUND)
        target = self.objects[kind, name]
        version = body.get("metadata", {}).get("resourceVersion")
        if version not in (None, target["metadata"]["resourceVersion"]):
            raise ApiError("changed", CONFLICT)
        if subresource == "scale":
            body = {**body, "spec": {"replicas": body["spec"]["replicas"]}}
        if "template" in body.get("spec", {}) and not self.may_move(target):
            self.faults["template that the API server refuses"] += 1
            raise ApiError("spec.template: field is immutable", INVALID)
        self.writes.append(("patch", kind, name, body))
        if "ownerReferences" in body.get("metadata", {}):
            target["metadata"]["ownerReferences"] = body["metadata"]["ownerReferences"]
        if "spec" in body:
            target["spec"].update(body["spec"])
            target["metadata"]["generation"] += 1
        for key, value in body.get("data", {}).items():
            data = target.setdefault("data", {})
            data.pop(key, None)
            if value is not None:
                data[key] = value
        self.touch(target)
        return copy.deepcopy(target)

    def may_move(self, job):
        """Return whether a Job may get another node affinity (pkg/registry/batch/job/strategy.go).

        Before Kubernetes 1.36, none may that has run.
        """
        suspended = {"type": "Suspended", "status": "True"} in job["status"].get("conditions", [])
        return self.moves and job["spec"]["suspend"] and suspended and not job["status"]["active"]

    def delete(self, kind, name, body):
        if (kind, name) not in self.objects:
            raise ApiError(f"{kind} {name}", NOT_FOUND)
        uid = body.get("preconditions", {}).get("uid")
        if uid not in (None, self.objects[kind, name]["metadata"]["uid"]):
            raise ApiError("another object", CONFLICT)
        self.writes.append(("delete", kind, name, body))
        gone = self.objects.pop((kind, name))
        for pod in self.pods(gone):
            self.delete_pod(pod)
        self.dirty = True
        return {}

    # Time

    def after(self, seconds, what, *arguments):
        heapq.heappush(self.events, (self.now + seconds, next(self.order), what, arguments))

    def next_time(self):
        times = [self.events[0][0]] if self.events else []
        return min([*times, self.tick_at] if self.dirty else times, default=self.now + 60)

    def advance(self, until):
        """Let time pass, with all that happens meanwhile."""
        while self.next_time() <= until:
            self.now = max(self.now, self.next_time())
            while self.events and self.events[0][0] <= self.now:
                _, _, what, arguments = heapq.heappop(self.events)
                what(*arguments)
            if self.dirty and self.tick_at <= self.now:
                self.dirty = False
                self.tick_at = self.now + self.random.choice(self.lags)
                for kind, reconcile in (("Job", self.sync_job), ("StatefulSet", self.sync_set)):
                    for body in self.all(kind):
                        reconcile(body)
        self.now = max(self.now, until)

    # The kubelets

    def pods(self, owner):
        uid = owner["metadata"]["uid"]
        return [p for p in self.all("Pod") if p["metadata"]["ownerReferences"][0]["uid"] == uid]

    def create_pod(self, owner, index):
        name = f"{owner['metadata']['name']}-{index}"
        finalizers = {}
        if owner["kind"] == "Job":
            name += f"-{next(self.uids)}"
            finalizers = {"finalizers": ["batch.kubernetes.io/job-tracking"]}
        pod = self.put(
            "Pod",
            name,
            metadata={
                "labels": owner["metadata"]["labels"],
                "ownerReferences": [{"uid": owner["metadata"]["uid"]}],
                **finalizers,
            },
            spec={"nodeName": self.random.choice(sorted(NODES - avoided(owner)))},
            status={"phase": "Pending", "conditions": []},
            index=index,
            counted=False,
        )
        self.on_pod_created(pod)
        self.after(self.random.uniform(0.2, 3.0), self.run_pod, pod)

    def exists(self, pod):
        return self.objects.get(("Pod", pod["metadata"]["name"])) is pod

    def is_running(self, pod):
        return self.exists(pod) and pod["status"]["phase"] == "Running"

    def run_pod(self, pod):
        if not self.exists(pod) or pod["metadata"].get("deletionTimestamp"):
            return
        pod["status"]["phase"] = "Running"
        pod["status"]["containerStatuses"] = [
            {"name": "main", "restartCount": 0, "image": "i", "state": {"running": {}}}
        ]
        self.touch(pod)
        self.on_pod_running(pod)

    def end_pod(self, pod, code):
        """Let the training container exit; its kubelet reports that a moment later."""
        if self.is_running(pod) and not pod.get("exiting"):
            pod["exiting"] = True
            delay = self.random.choice((0.05, 0.1, 1.0, 2.5))
            self.after(delay, self.report_end, pod, code, stamp(self.now))

    def report_end(self, pod, code, at):
        if not self.is_running(pod):
            return
        end = {"exitCode": code, "finishedAt": at, "reason": "Error" if code else "Completed"}
        pod["status"]["containerStatuses"][0]["state"] = {"terminated": end}
        self.touch(pod)
        # The kubelet sets the phase when it has cleaned up.
        self.after(self.random.choice((0.0, 0.0, 1.0)), self.report_phase, pod, code)

    def report_phase(self, pod, code):
        if not self.is_running(pod):
            return
        pod["status"]["phase"] = "Failed" if code else "Succeeded"
        self.touch(pod)
        if pod["metadata"].get("deletionTimestamp"):
            self.after(self.random.uniform(0.1, 1.0), self.remove_pod, pod)

    def delete_pod(self, pod, *, disrupted=False, lost=False, by_controller=False):
        """Delete a pod gracefully; on a lost node, it stays for ever."""
        if not self.exists(pod) or pod["metadata"].get("deletionTimestamp"):
            return
        pod["metadata"]["deletionTimestamp"] = stamp(self.now + GRACE)
        pod["metadata"]["deletionGracePeriodSeconds"] = int(GRACE)
        if by_controller:
            pod["counted"] = True
            pod["metadata"].pop("finalizers", None)
        else:
            self.count_lost(pod)
        if disrupted:
            pod["status"]["conditions"].append({"type": "DisruptionTarget", "status": "True"})
        self.touch(pod)
        if lost:
            pod["lost"] = pod["exiting"] = True
            if pod["metadata"]["name"].startswith(f"{self.job}-ps"):
                # A StatefulSet replaces the pod only when somebody has removed its node.
                self.after(900.0, self.remove_pod, pod)
        elif pod["status"]["phase"] == "Running" and not pod.get("exiting"):
            pod["exiting"] = True
            code = self.random.choice((143, 143, 1, 0, 137))
            at = self.now + self.random.choice((0.0, 1.0, 29.0))
            self.after(at - self.now, self.report_end, pod, code or 143, stamp(at))
        elif not pod.get("exiting") or pod["status"]["phase"] in ("Succeeded", "Failed"):
            self.after(self.random.uniform(0.0, 1.0), self.remove_pod, pod)

    def count_lost(self, pod):
        """Let the Job count a deleted pod as failed, unless its controller has deleted it."""
        uid = pod["metadata"]["ownerReferences"][0]["uid"]
        job = next((job for job in self.all("Job") if job["metadata"]["uid"] == uid), None)
        counts = job and not job["spec"].get("podFailurePolicy")
        if counts and not pod["counted"] and pod["status"]["phase"] in ("Pending", "Running"):
            job["lost"] = job.get("lost", 0) + 1
            job["status"]["uncountedTerminatedPods"] = {"failed": ["uid"]}
        pod["counted"] = True
        pod["metadata"].pop("finalizers", None)

    def remove_pod(self, pod):
        if self.exists(pod):
            if not pod["metadata"].get("deletionTimestamp"):
                self.count_lost(pod)
            del self.objects["Pod", pod["metadata"]["name"]]
            pod["removed"] = True
            self.touch(pod)

    # The Job controller

    def sync_job(self, job):  # noqa: C901, PLR0912
        spec, status = job["spec"], job["status"]
        before = json.dumps(status)
        job.setdefault("backoff", {})
        conditions = status.setdefault("conditions", [])
        pods = self.pods(job)
        done = set(status.get("completedIndexes", []))
        status["failed"] = status.get("failed", 0) + job.pop("lost", 0)
        status.pop("uncountedTerminatedPods", None)
        for pod in pods:
            if pod["status"]["phase"] in ("Succeeded", "Failed") and not pod["counted"]:
                pod["counted"] = True
                if pod["status"]["phase"] == "Succeeded":
                    pod["metadata"].pop("finalizers", None)
                    done.add(pod["index"])
                else:
                    count, _ = job["backoff"].get(pod["index"], (0, 0.0))
                    job["backoff"][pod["index"]] = (count + 1, self.now)
                    if not spec.get("backoffLimitPerIndex"):
                        self.count_failure(job, pod)
        status["completedIndexes"] = sorted(done)
        status["succeeded"] = len(done)
        active = [
            pod
            for pod in pods
            if pod["status"]["phase"] in ("Pending", "Running")
            and not pod["metadata"].get("deletionTimestamp")
        ]
        ended = next((c for c in conditions if c["type"] in ("Complete", "Failed")), None)
        soon = next(
            (c for c in conditions if c["type"] in ("SuccessCriteriaMet", "FailureTarget")), 0
        )
        if soon and not ended:
            name = "Complete" if soon["type"] == "SuccessCriteriaMet" else "Failed"
            conditions.append({**soon, "type": name})
        if ended or soon:
            for pod in active:
                self.delete_pod(pod, by_controller=True)
            active = []
        elif spec.get("suspend"):
            for pod in active:
                self.delete_pod(pod, by_controller=True)
            active = []
            status.pop("startTime", None)
            self.set_suspended(job, "True")
        else:
            self.set_suspended(job, "False")
            if "startTime" not in status:
                status["startTime"] = self.now
            self.run_job(job, active, done)
        status["active"] = len(active)
        status["ready"] = sum(pod["status"]["phase"] == "Running" for pod in active)
        if json.dumps(status) != before:
            self.touch(job)

    def set_suspended(self, job, value):
        conditions = job["status"]["conditions"]
        found = [c for c in conditions if c["type"] == "Suspended"]
        if found:
            found[0]["status"] = value
        elif value == "True":
            conditions.append({"type": "Suspended", "status": value})

    def is_backing_off(self, job, index):
        """Return whether a failed replica is not replaced yet (backoff_utils.go, per index)."""
        count, at = job["backoff"].get(index, (0, 0.0))
        until = at + min(10.0 * 2 ** (count - 1), 600.0)
        if count and until > self.now:
            self.after(until - self.now, self.touch, job)
        return bool(count) and until > self.now

    def count_replaced(self, job, index):
        """Count the failure that a pod replaces: so late, if the back-off is per index."""
        for pod in self.pods(job) if job["spec"].get("backoffLimitPerIndex") else []:
            failed = pod["index"] == index and pod["status"]["phase"] == "Failed"
            if failed and pod["metadata"].pop("finalizers", None):
                job["status"]["failed"] += 1

    def count_failure(self, job, pod):
        pod["metadata"].pop("finalizers", None)
        policy = job["spec"].get("podFailurePolicy")
        drained = any(c["type"] == "DisruptionTarget" for c in pod["status"]["conditions"])
        if policy and drained:
            return
        code = pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"]
        job["status"]["failed"] = job["status"].get("failed", 0) + 1
        if policy and code < 128:
            self.fail_job(job, "PodFailurePolicy")
        elif job["status"]["failed"] > job["spec"]["backoffLimit"]:
            self.fail_job(job, "BackoffLimitExceeded")

    def fail_job(self, job, reason):
        self.ends.setdefault(job["metadata"]["name"], False)
        if not any(
            c["type"] in ("FailureTarget", "SuccessCriteriaMet")
            for c in job["status"]["conditions"]
        ):
            job["status"]["conditions"].append(
                {"type": "FailureTarget", "status": "True", "reason": reason, "message": "model"}
            )
            self.dirty = True

    def run_job(self, job, active, done):
        spec, status = job["spec"], job["status"]
        deadline = spec.get("activeDeadlineSeconds")
        if len(done) >= spec["completions"]:
            self.ends.setdefault(job["metadata"]["name"], True)
            status["conditions"].append(
                {"type": "SuccessCriteriaMet", "status": "True", "reason": "CompletionsReached"}
            )
            self.dirty = True
        elif deadline is not None and self.now - status["startTime"] >= deadline:
            self.fail_job(job, "DeadlineExceeded")
        elif any(c["type"] == "FailureTarget" for c in status["conditions"]):
            self.dirty = True
        else:
            if deadline is not None:
                self.after(deadline, self.touch, job)
            taken = {pod["index"] for pod in active} | done
            for index in range(spec["completions"]):
                if index in taken or len(active) >= spec["parallelism"]:
                    continue
                if not self.is_backing_off(job, index):
                    self.count_replaced(job, index)
                    self.create_pod(job, index)
                    active.append(self.pods(job)[-1])

    # The StatefulSet controller

    def sync_set(self, body):
        spec, status = body["spec"], body["status"]
        before = json.dumps(status)
        pods = {pod["index"]: pod for pod in self.pods(body)}
        for index, pod in pods.items():
            if index >= spec["replicas"]:
                self.delete_pod(pod)
            elif pod["status"]["phase"] in ("Succeeded", "Failed"):
                self.remove_pod(pod)
        for index in range(spec["replicas"]):
            name = f"{body['metadata']['name']}-{index}"
            if index not in pods and ("Pod", name) not in self.objects:
                self.create_pod(body, index)
        pods = self.pods(body)
        status["replicas"] = len(pods)
        status["readyReplicas"] = sum(
            p["status"]["phase"] == "Running" and "deletionTimestamp" not in p["metadata"]
            for p in pods
        )
        status["observedGeneration"] = body["metadata"]["generation"]
        if json.dumps(status) != before:
            self.touch(body)


class Client:
    """The API server as one supervisor reaches it: with faults, and others acting in between."""

    namespace = "team"

    def __init__(self, world, random, rate, between):
        self.world, self.random, self.rate, self.between = world, random, rate, between
        self.requests = set()

    def _call(self, method, *arguments, **selectors):
        self.requests.add(rights.request(method.__name__, *arguments))
        if self.random.random() < self.rate:
            self.world.faults["time passes between two requests, or another supervisor acts"] += 1
            self.between()
        start, end = self.world.outage
        if start <= self.world.now < end:
            self.world.faults["request while the API server is away for 300 s"] += 1
            raise ApiError("nobody answers")
        if self.random.random() >= self.rate:
            return method(*arguments, **selectors)
        kind = self.random.choice(("before", "after", "409", "429", "killed", "killed after"))
        self.world.faults[FAULTS[kind]] += 1
        if kind in ("after", "killed after"):
            method(*arguments, **selectors)
        if kind.startswith("killed"):
            raise Killed
        if kind == "409":
            raise ApiError("injected", CONFLICT)
        raise ApiError(f"injected {kind}", 429, "1") if kind == "429" else ApiError("injected")

    def get(self, *arguments):
        return self._call(self.world.get, *arguments)

    def list(self, kind, keep, **selectors):
        return self._call(self.world.list, kind, keep, **selectors)

    def create(self, *arguments):
        return self._call(self.world.create, *arguments)

    def patch(self, *arguments):
        return self._call(self.world.patch, *arguments)

    def delete(self, *arguments):
        return self._call(self.world.delete, *arguments)
