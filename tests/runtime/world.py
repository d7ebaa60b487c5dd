"""A model of a cluster: API server, controllers, kubelets, nodes, and faults.

It implements the interface of `mlgen.runtime.api.Api` without sockets, with a simulated clock. All
randomness comes from one seed. Left out: priorities, RBAC (see `rights`), the caches of the
controllers, clients that write old objects without their resource version, and after a restore of
etcd, pods that it brings back.
"""

import heapq
import itertools
import json
from collections import Counter, defaultdict

from runtime import rights
from runtime.controllers import Controllers, find, is_deleted, is_final, is_tracked
from runtime.sidecars import Sidecars, has_sidecar

from mlgen.runtime.answers import (
    PREFERRED,
    REQUIRED,
    ApiError,
    Event,
    json_of,
    page,
    retry_after,
    shaped,
)
from mlgen.runtime.api import CONFLICT, NOT_FOUND
from mlgen.runtime.clock import Clock
from mlgen.runtime.cluster import SIDECAR, TRACKING
from mlgen.runtime.status import stamp

EPOCH = 1_800_000_000.0
INVALID, FORBIDDEN = 422, 403
GRACE = 30.0
FAULTS = {
    "before": "connection lost before a request",
    "after": "connection lost after a request was done",
    "409": "409 Conflict",
    "429": "429 Too Many Requests",
    "odd": "answer of an unexpected shape",
    "killed": "supervisor killed before a request",
    "killed after": "supervisor killed after a request",
}

NODES = {"a", "b", "c", "d"}
"""One more than the number of avoided nodes."""

NOT_READY, EVICTED, COLLECTED = 50.0, 350.0, 900.0
"""Seconds without a kubelet after which the pods of a node are not ready
(--node-monitor-grace-period), the pods are deleted (tolerationSeconds of 300), and the node may be
deleted."""

CALM = 7200.0
"""Seconds after which few requests fail."""

REPAIRED = 5400.0
"""Seconds after which a node with the same name exists again."""

HOUR = 3600.0
JUMPS = (HOUR, -HOUR, 24 * HOUR, -24 * HOUR)
"""Seconds by which a clock of the control plane jumps."""

RETRY_AFTER = ("1", "1", "3600", "9" * 400, "-1", "\u00b2", "Wed, 21 Oct 2099 07:28:00 GMT")
"""Values of the header Retry-After."""

ODD = (
    *(b"", b"null", b"[]", b"3", b'"x"', b"<html>502</html>", b'{"items": ', b"[" * 9000, b"\xff"),
    *(b'{"items": null}', b'{"kind": "Status", "code": 200, "message": "x"}', b'{"metadata": 1}'),
    *(b'{"metadata": {"name": "a", "uid": "b", "labels": [1]}, "items": [{}], "kind": "x"}',),
)
"""Answers with the status 200 that are not what was asked for."""

REJECTIONS = ("OutOfcpu", "TopologyAffinityError", "UnexpectedAdmissionError")
KEEPER = "acme.example/keep"
"""The finalizer of another program."""

NEVER = "1970-01-01T00:00:00Z"
UNKNOWN = {"exitCode": 137, "reason": "ContainerStatusUnknown"}
UNKNOWN |= {"startedAt": None, "finishedAt": None}
"""The end of a container that the kubelet does not know (kubelet/status/status_manager.go)."""

INDEXES = {
    "Job": "batch.kubernetes.io/job-completion-index",
    "StatefulSet": "apps.kubernetes.io/pod-index",
}
"""The labels of a pod that contain its index."""


def avoided(owner):
    """Return the nodes that the template of a Job does not prefer, or excludes."""
    affinity = owner["spec"].get("template", {}).get("spec", {}).get("affinity", {})
    of_node = affinity.get("nodeAffinity", {})
    terms = [term["preference"] for term in of_node.get(PREFERRED, [])]
    terms += of_node.get(REQUIRED, {}).get("nodeSelectorTerms", [])
    fields = [field for term in terms for field in term["matchFields"]]
    return {name for field in fields for name in field["values"]}


def find_status(pod, container):
    """Return the status of a container; {} if the kubelet has not reported it."""
    keys = ("initContainerStatuses", "containerStatuses")
    found = [each for key in keys for each in pod["status"].get(key, ())]
    return next((each for each in found if each["name"] == container), {})


def copied(value):
    """Return a copy of JSON."""
    if isinstance(value, dict):
        return {key: copied(each) for key, each in value.items()}
    return [copied(each) for each in value] if isinstance(value, list) else value


def merge(target, changes):
    """Apply a merge patch (RFC 7386)."""
    for key, value in changes.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(target.get(key), dict):
            merge(target[key], value)
        else:
            target[key] = copied(value)


class Killed(BaseException):
    """The supervisor dies here."""


class World(Controllers, Sidecars):
    """The objects of one namespace, and the controllers and kubelets that change them."""

    namespace = "team"

    def __init__(self, random, job="mnist"):
        self.random = random
        self.job = job
        self.now = EPOCH
        self.objects = {}
        self.owned = defaultdict(list)
        self.version = 0
        self.uids = itertools.count(1)
        self.order = itertools.count()
        self.events = []
        self.bells = []
        self.watches = []
        self.writes = []
        self.dirty = True
        self.ahead, self.servers = 0.0, (0.0,)
        """Seconds by which the clocks of the control plane are ahead, and those of each of its API
        servers in addition."""
        self.tick_at = self.now
        self.lags = random.choice(((0.1, 0.1, 0.5, 3.0), (0.1, 0.5, 20.0)))
        self.ends = {}
        self.moves = True
        self.faults = Counter()
        self.on_pod_running = lambda *_: None
        self.on_pod_created = lambda *_: None
        self.on_write = self.on_resumed = self.on_evicted = lambda *_: None
        self.on_pod_failed = lambda *_: None
        """Called with a pod that fails before it runs, according to its `fate`."""
        self.skews = dict.fromkeys(NODES, 0.0)
        """Seconds by which the clocks of the nodes are ahead."""
        self.dead, self.away, self.tainted = set(), {}, set()
        """Lost nodes; nodes with a silent kubelet, and until when; nodes that get no new pods."""
        self.silent_since = {}
        self.in_place = {}
        """Names of the workloads whose pods restart in place, and whether their own failures
        restart them."""
        self.hidden = 0.3
        """The share of exit codes that the kubelet overwrites before anyone has seen them."""
        self.on_request = lambda *_: None
        """Called with a pod whose sidecar sends a request."""
        self.sidecar = self.fetches = False
        """True if pods have a native sidecar; True if they have an init container that ends."""
        self.on_sigterm = (143, 143, 1, 137)
        """Exit codes of programs after SIGTERM."""
        self.outage = self.webhook = self.resumer = self.quota = self.conflicts = (0.0, 0.0)
        """Start and end of faults: the API server is down, an admission webhook rejects changes of
        Jobs, another client resumes Jobs, a quota refuses pods, all patches meet a conflict."""
        self.immortal = 0.0
        """The time until which no supervisor dies."""
        self.kept = 0.0
        """Seconds for which a finalizer of another program keeps an ended pod."""

    # The API server

    def date(self):
        """Return the time by the clock of one of the API servers."""
        return self.now + self.ahead + self.random.choice(self.servers)

    def put(self, kind, name, **fields):
        metadata = fields.pop("metadata", {})
        body = {
            "kind": kind,
            "metadata": {
                "name": name,
                "uid": f"{kind}-{next(self.uids)}",
                "creationTimestamp": stamp(self.date()),
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
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.dirty = True
        for watch in self.watches if body["kind"] == "Pod" else ():
            watch.see(body)
        for bell in self.bells:
            bell()

    def awake(self):
        """Let the controllers act again."""
        self.dirty = True

    def all(self, kind):
        return [body for (each, _), body in self.objects.items() if each == kind]

    def get(self, kind, name, _version=""):
        try:
            return shaped(kind, self.objects[kind, name])
        except KeyError:
            raise ApiError(f"{kind} {name}", NOT_FOUND) from None

    def list(self, kind, **selectors):
        key, value = selectors["labelSelector"].split("=")
        items = [b for b in self.all(kind) if b["metadata"]["labels"].get(key) == value]
        return Event("LISTED", [shaped(kind, each) for each in items], str(self.version))

    def log(self, pod, container, previous="", **limits):
        """Return the log of a container, or the error of the API server without one.

        pkg/kubelet/kubelet_pods.go, validateContainerLogStatus
        """
        if ("Pod", pod) not in self.objects:
            raise ApiError(f'pods "{pod}" not found', NOT_FOUND)
        found = self.objects["Pod", pod]
        if self.is_lost(found):
            raise ApiError("dial tcp 10.0.0.5:10250: connect: connection refused", 500)
        known = [*found["spec"]["containers"], *found["spec"].get("initContainers", ())]
        if container not in [each["name"] for each in known]:
            raise ApiError(f"container {container} is not valid for pod {pod}", 400)
        each = find_status(found, container)
        what = f'container "{container}" in pod "{pod}"'
        last = "terminated" in each.get("lastState", {})
        if previous and not last:
            raise ApiError(f"previous terminated {what} not found", 400)
        if not last and each.get("state", {}).keys() <= {"waiting"}:
            raise ApiError(f"{what} is waiting to start: ContainerCreating", 400)
        count = each["restartCount"] - bool(previous or "waiting" in each["state"])
        lines = [f"{pod} run {count} line {number}\n" for number in range(100)]
        return "".join(lines[-int(limits["tailLines"]) :]).encode()[: int(limits["limitBytes"])]

    def create(self, kind, body):
        name = body["metadata"]["name"]
        if (kind, name) in self.objects:
            raise ApiError("exists", CONFLICT)
        made = self.put(kind, name, **copied(body))
        self.wrote("create", kind, name, body)
        return shaped(kind, made)

    def wrote(self, *write):
        self.writes.append(write)
        self.on_write(*write)

    def patch(self, kind, name, body, subresource=""):
        if (kind, name) not in self.objects:
            raise ApiError(f"{kind} {name}", NOT_FOUND)
        target = self.objects[kind, name]
        version = body.get("metadata", {}).get("resourceVersion")
        if version not in (None, target["metadata"]["resourceVersion"]):
            raise ApiError("changed", CONFLICT)
        if subresource == "scale":
            body = {"spec": {"replicas": body["spec"]["replicas"]}}
        self.admit(target, body)
        metadata = {k: v for k, v in body.get("metadata", {}).items() if k != "resourceVersion"}
        if self.change(target, {**body, "metadata": metadata}):
            self.touch(target)
        self.wrote("patch", kind, name, body)

    def change(self, target, body):
        """Apply a merge patch; return True if it changes the object."""
        before = json.dumps([target.get(key) for key in body])
        spec = json.dumps(target.get("spec"))
        target.setdefault("data", {})
        merge(target, body)
        changed = before != json.dumps([target.get(key) for key in body])
        target["metadata"]["generation"] += spec != json.dumps(target.get("spec"))
        return changed

    def admit(self, target, body):
        """Reject changes like the API server (pkg/apis/batch/validation/validation.go)."""
        if target["kind"] == "Job" and self.holds(self.webhook):
            self.faults["change of a Job that a webhook refuses"] += 1
            raise ApiError("admission webhook policy.example denied the request", FORBIDDEN)
        spec = body.get("spec", {})
        if "template" in spec and not self.may_move(target):
            self.faults["template that the API server refuses"] += 1
            raise ApiError("spec.template: field is immutable", INVALID)
        size = spec.get("completions", target.get("spec", {}).get("completions"))
        if "completions" in spec and size != {**target["spec"], **spec}.get("parallelism"):
            raise ApiError("spec.completions: only in tandem with spec.parallelism", INVALID)

    def may_move(self, job):
        """Return True if a Job may get another node affinity (pkg/registry/batch/job/strategy.go).

        Before Kubernetes 1.36, a Job that has run may not.
        """
        suspended = {"type": "Suspended", "status": "True"} in job["status"].get("conditions", [])
        return self.moves and job["spec"]["suspend"] and suspended and not job["status"]["active"]

    def delete(self, kind, name, body):
        if (kind, name) not in self.objects:
            raise ApiError(f"{kind} {name}", NOT_FOUND)
        uid = body.get("preconditions", {}).get("uid")
        if uid not in (None, self.objects[kind, name]["metadata"]["uid"]):
            raise ApiError("another object", CONFLICT)
        self.wrote("delete", kind, name, body)
        if kind == "Pod":
            self.force(self.objects[kind, name])
            return
        gone = self.objects[kind, name]
        if gone["metadata"].get("finalizers"):
            gone["metadata"].setdefault("deletionTimestamp", stamp(self.date()))
            self.touch(gone)
            return
        del self.objects[kind, name]
        self.collect_pods(gone)

    def hold(self, kind, name, seconds):
        """Let another program keep an object with a finalizer for a while."""
        body = self.objects[kind, name]
        body["metadata"].setdefault("finalizers", []).append(KEEPER)
        self.touch(body)
        self.after(seconds, self.unhold, body)

    def unhold(self, body):
        """Let another program remove its finalizer."""
        key = body["kind"], body["metadata"]["name"]
        if self.objects.get(key) is body and self.drop(body, KEEPER):
            self.touch(body)
            if is_deleted(body):
                del self.objects[key]
                self.collect_pods(body)

    def collect_pods(self, owner):
        """Delete the pods of an object that is gone."""
        for pod in self.pods(owner):
            self.let_go(pod)
            self.delete_pod(pod, by_controller=True)
        self.dirty = True

    def snapshot(self):
        """Return a copy of the objects, without the contents of pods, and its version."""
        objects = {key: key[0] != "Pod" and copied(body) for key, body in self.objects.items()}
        return self.version, objects

    def restore(self, version, objects):
        """Bring back a snapshot of etcd. The resource versions start again from there.

        The kubelets end the pods that are younger. No watch tells any of this.
        """
        self.version = version
        for pod in [
            pod for pod in self.all("Pod") if ("Pod", pod["metadata"]["name"]) not in objects
        ]:
            pod["exiting"] = True
            del self.objects["Pod", pod["metadata"]["name"]]
            self.owned[pod["metadata"]["ownerReferences"][0]["uid"]].remove(pod)
        for key in [key for key in self.objects if key not in objects]:
            del self.objects[key]
        for key, body in objects.items():
            if body:
                now = self.objects.setdefault(key, {})
                now.clear()
                now.update(copied(body))
        self.dirty = True

    # Time

    def holds(self, window):
        """Return True between the start and the end of a fault."""
        start, end = window
        return start <= self.now < end

    def after(self, seconds, what, *arguments):
        heapq.heappush(self.events, (self.now + seconds, next(self.order), what, arguments))

    def next_time(self):
        times = [self.events[0][0]] if self.events else []
        return min([*times, self.tick_at] if self.dirty else times, default=self.now + 60)

    def advance(self, until):
        """Let time pass, and run all events meanwhile."""
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
                self.resume_again()
        self.now = max(self.now, until)

    def resume_again(self):
        """Let another client resume suspended Jobs."""
        for job in self.all("Job") if self.holds(self.resumer) else ():
            if job["spec"].get("suspend") and not job.get("resumed"):
                job["resumed"] = True
                self.after(self.random.uniform(0.1, 1.0), self.resume, job)

    def resume(self, job):
        job["resumed"] = False
        if job["spec"].get("suspend") and self.objects.get(("Job", job["metadata"]["name"])) is job:
            self.faults["Job that another client resumes"] += 1
            self.on_resumed(job)
            self.change(job, {"spec": {"suspend": False}})
            self.touch(job)

    # The pods, and their kubelets

    def pods(self, owner):
        return list(self.owned[owner["metadata"]["uid"]])

    def create_pod(self, owner, index, failures=0):
        name, uid = f"{owner['metadata']['name']}-{index}", owner["metadata"]["uid"]
        if self.holds(self.quota) and self.random.random() < 0.7:
            self.faults["pod that a quota refuses"] += 1
            self.after(self.random.uniform(1.0, 20.0), self.awake)
            return
        finalizers = [KEEPER] if self.kept else []
        if owner["kind"] == "Job":
            name += f"-{next(self.uids)}"
            finalizers.append(TRACKING)
        nodes = NODES - self.tainted
        init = [{"name": "fetch"}] if self.fetches else []
        init += [{"name": "proxy", "restartPolicy": "Always"}] if self.sidecar else []
        if owner["metadata"]["name"] in self.in_place:
            init.append({"name": SIDECAR, "restartPolicy": "Always"})
        scheduled = {"type": "PodScheduled", "status": "True"}
        scheduled["lastTransitionTime"] = stamp(self.date())
        pod = self.put(
            "Pod",
            name,
            metadata={
                "labels": {**owner["metadata"]["labels"], INDEXES[owner["kind"]]: str(index)},
                "ownerReferences": [{"uid": uid}],
                **({"finalizers": finalizers} if finalizers else {}),
            },
            spec={
                "nodeName": self.random.choice(sorted(nodes - avoided(owner) or nodes or NODES)),
                "containers": [{"name": "main"}],
                **({"initContainers": init} if init else {}),
            },
            status={"phase": "Pending", "conditions": [scheduled]},
            owner=owner["metadata"]["name"],
            index=index,
            failures=failures,
            created=self.now,
        )
        self.owned[uid].append(pod)
        self.on_pod_created(pod)
        self.after(self.random.uniform(0.2, 3.0), self.run_pod, pod)

    def exists(self, pod):
        return self.objects.get(("Pod", pod["metadata"]["name"])) is pod

    def is_running(self, pod):
        return self.exists(pod) and pod["status"]["phase"] == "Running"

    def is_lost(self, pod):
        return pod["spec"]["nodeName"] in self.dead

    def clock(self, pod, ago=0.0):
        """Return a time by the clock of the pod's node."""
        return stamp(self.now + self.skews[pod["spec"]["nodeName"]] - ago)

    def waits_for_kubelet(self, pod, what, *arguments):
        """Return True if the kubelet of a pod cannot act now. Repeats the call when it is back."""
        until = self.away.get(pod["spec"]["nodeName"], 0.0)
        if self.now < until and self.exists(pod):
            self.after(until - self.now + self.random.uniform(0.0, 1.0), what, *arguments)
        return self.is_lost(pod) or self.now < until or not self.exists(pod)

    def say(self, pod, **values):
        """Set conditions of a pod, as its kubelet does."""
        for name, value in values.items():
            found = find(pod["status"]["conditions"], name)
            if not found:
                found = {"type": name}
                pod["status"]["conditions"].append(found)
            if found.get("status") != str(value):
                found.update(status=str(value), lastTransitionTime=self.clock(pod))

    def run_pod(self, pod):
        if is_deleted(pod) or self.waits_for_kubelet(pod, self.run_pod, pod):
            return
        status, fate = pod["status"], pod.get("fate")
        if fate == "reject":
            reason = self.random.choice(REJECTIONS)
            status.update(phase="Failed", reason=reason, message="Pod was rejected: model")
            self.fail(pod)
            return
        waiting = {"waiting": {"reason": "PodInitializing"}}
        status["containerStatuses"] = [self.container("main", waiting)]
        running = {"running": {"startedAt": self.clock(pod)}}
        names = [each["name"] for each in pod["spec"].get("initContainers", ())]
        status["initContainerStatuses"] = [self.container(name, dict(running)) for name in names]
        status["startTime"] = self.clock(pod)
        self.say(pod, PodReadyToStartContainers=True, Initialized=not names)
        self.say(pod, ContainersReady=False, Ready=False)
        if "fetch" in names:
            self.touch(pod)
            self.after(self.random.uniform(0.1, 2.0), self.initialize, pod)
        else:
            self.start(pod)

    @staticmethod
    def container(name, state):
        return {"name": name, "restartCount": 0, "image": "i", "state": state}

    def initialize(self, pod):
        if is_deleted(pod) or self.waits_for_kubelet(pod, self.initialize, pod):
            return
        code = 1 if pod.get("fate") == "init" else 0
        pod["status"]["initContainerStatuses"][0]["state"] = self.ended(pod, code)
        if not code:
            self.start(pod)
            return
        self.fail(pod)

    def fail(self, pod):
        pod["status"]["phase"] = "Failed"
        self.end_sidecar(pod)
        self.touch(pod)
        self.on_pod_failed(pod)

    def start(self, pod):
        if pod.get("fate") == "start error":
            end = {"terminated": {"exitCode": 128, "reason": "StartError", "startedAt": NEVER}}
            end["terminated"]["finishedAt"] = self.clock(pod)
            pod["status"]["containerStatuses"][0]["state"] = end
            self.fail(pod)
        elif has_sidecar(pod):
            self.follow(pod)
        else:
            self.begin(pod)

    def begin(self, pod):
        """Start the training container."""
        pod["exiting"] = False
        pod.pop("session", None)
        pod["started"] = self.now
        state = {"running": {"startedAt": self.clock(pod)}}
        pod["status"]["containerStatuses"][0]["state"] = state
        pod["status"]["phase"] = "Running"
        self.say(pod, Initialized=True, ContainersReady=True, Ready=True)
        self.touch(pod)
        self.on_pod_running(pod)

    def ended(self, pod, code, reason="", ago=0.0):
        """Return the state of a container that has ended."""
        started = self.now - pod.get("started", self.now)
        end = {"exitCode": code, "reason": reason or ("Error" if code else "Completed")}
        end.update(startedAt=self.clock(pod, started), finishedAt=self.clock(pod, ago))
        return {"terminated": end}

    def end_pod(self, pod, code, reason=""):
        """Let the training container exit. Its kubelet reports the exit a moment later."""
        if self.is_running(pod) and not pod.get("exiting"):
            pod["exiting"] = True
            delay = self.random.choice((0.05, 0.1, 1.0, 2.5))
            self.during(delay, self.report_end, pod, code, reason, self.now)

    def report_end(self, pod, code, reason, at):
        if self.waits_for_kubelet(pod, self.report_end, pod, code, reason, at) or is_final(pod):
            return
        status = pod["status"]
        again = code and not is_deleted(pod) and self.in_place.get(pod["owner"])
        if not again or self.random.random() >= self.hidden:
            status["containerStatuses"][0]["state"] = self.ended(pod, code, reason, self.now - at)
            self.say(pod, ContainersReady=False, Ready=False)
            self.touch(pod)
        if again:
            self.restart_all(pod)
            return
        # The kubelet ends sidecars, and sets the phase when it has cleaned up.
        self.after(self.random.choice((0.0, 0.0, 1.0)), self.report_phase, pod, code)

    def end_sidecar(self, pod, code=143):
        for each in pod["status"].get("initContainerStatuses", ()):
            if each["name"] in ("proxy", SIDECAR) and "running" in each["state"]:
                each["state"] = self.ended(pod, code)

    def report_phase(self, pod, code):
        if self.waits_for_kubelet(pod, self.report_phase, pod, code) or is_final(pod):
            return
        self.end_sidecar(pod)
        pod["status"]["phase"] = "Failed" if code else "Succeeded"
        self.touch(pod)
        if is_deleted(pod):
            self.after(self.random.uniform(0.1, 1.0), self.remove_pod, pod)

    def lose_device(self, pod):
        devices = [{"resourceID": "g0", "health": "Unhealthy"}]
        for each in pod["status"]["containerStatuses"]:
            each["allocatedResourcesStatus"] = [{"name": "x/gpu", "resources": devices}]
        self.touch(pod)

    def crash(self, pod, code):
        """Let a training container fail and restart in its pod."""
        if self.in_place.get(pod["owner"]):
            self.end_pod(pod, code)
            return
        self.restart_container(pod, pod["status"].get("containerStatuses", ())[0:1], code)

    def crash_sidecar(self, pod):
        names = pod["status"].get("initContainerStatuses", ())
        self.restart_container(pod, [each for each in names if each["name"] == "proxy"], 1)

    def restart_container(self, pod, statuses, code):
        for each in statuses:
            if self.is_running(pod) and "running" in each["state"] and not self.is_lost(pod):
                each["restartCount"] += 1
                each["lastState"] = self.ended(pod, code)
                each["state"] = {"running": {"startedAt": self.clock(pod)}}
                self.touch(pod)

    def delete_pod(self, pod, *, disrupted="", by_controller=False):
        """Delete a pod gracefully. On a lost node, it stays."""
        if not self.exists(pod) or is_deleted(pod):
            return
        if disrupted:
            target = {"type": "DisruptionTarget", "status": "True", "reason": disrupted}
            target["lastTransitionTime"] = stamp(self.date())
            pod["status"]["conditions"].append(target)
        pod["metadata"]["deletionTimestamp"] = stamp(self.date() + GRACE)
        pod["deleted"], pod["due"] = self.now, self.now + GRACE
        pod["metadata"]["deletionGracePeriodSeconds"] = int(GRACE)
        if by_controller:
            self.drop(pod, TRACKING)
        self.touch(pod)
        self.terminate(pod)

    def force(self, pod):
        """Delete a pod without a grace period: at once, or when its Job has counted it."""
        pod["exiting"] = True
        pod["metadata"].update(deletionTimestamp=stamp(self.date()), deletionGracePeriodSeconds=0)
        pod.setdefault("deleted", self.now)
        pod.setdefault("due", self.now)
        self.touch(pod)
        if is_tracked(pod):
            self.after(self.random.uniform(0, 2), self.report_end, pod, 137, "", self.now)
        else:
            self.remove_pod(pod)

    def terminate(self, pod):
        """Let the kubelet end a deleted pod."""
        if self.waits_for_kubelet(pod, self.terminate, pod):
            return
        if pod["status"]["phase"] == "Running":
            if not pod.get("exiting"):
                pod["exiting"] = True
                code, late = self.random.choice(self.on_sigterm), self.random.choice((0.0, 1.0, 29))
                self.after(late, self.report_end, pod, code, "", self.now + late)
            return
        if not is_final(pod):
            # TerminatePod in pkg/kubelet/status/status_manager.go
            key = "initContainerStatuses" if self.fetches else "containerStatuses"
            name = "fetch" if self.fetches else "main"
            pod["status"][key] = [self.container(name, {"terminated": dict(UNKNOWN)})]
            pod["status"]["phase"] = "Failed"
            self.touch(pod)
        self.after(self.random.uniform(0.0, 1.0), self.remove_pod, pod)

    def remove_pod(self, pod):
        """Remove a pod unless a finalizer holds it."""
        if not self.exists(pod):
            return
        if not is_deleted(pod):
            at = stamp(self.date())
            pod["metadata"].update(deletionTimestamp=at, deletionGracePeriodSeconds=0)
            pod["deleted"] = pod["due"] = self.now
        pod["ended"] = True
        if self.kept and KEEPER in pod["metadata"].get("finalizers", ()) and not pod.get("kept"):
            pod["kept"] = True
            self.faults["ended pod that a finalizer of another program keeps"] += 1
            self.after(self.kept, self.let_go, pod, KEEPER)
        if not pod["metadata"].get("finalizers"):
            del self.objects["Pod", pod["metadata"]["name"]]
            self.owned[pod["metadata"]["ownerReferences"][0]["uid"]].remove(pod)
        self.touch(pod)

    @staticmethod
    def drop(held, finalizer):
        """Remove a finalizer; return True if the object had it."""
        found = held["metadata"].pop("finalizers", [])
        rest = [each for each in found if each != finalizer]
        held["metadata"].update({"finalizers": rest} if rest else {})
        return rest != found

    def let_go(self, pod, finalizer=TRACKING):
        """Remove a finalizer of a pod, and the pod if it is deleted."""
        if self.drop(pod, finalizer):
            if pod.get("ended"):
                self.remove_pod(pod)
            else:
                self.touch(pod)

    # The nodes

    def on(self, node):
        return [pod for pod in self.all("Pod") if pod["spec"]["nodeName"] == node]

    def kill_node(self, node, fate):
        """Let a node die. Its pods become not ready, are deleted, and stay until its `fate`.

        Args:
            node: its name.
            fate: `reboots`, `is deleted`, or `stays` until it is repaired.
        """
        self.dead.add(node)
        self.watch_node(node)
        for pod in self.on(node):
            pod["cut off"] = True
        if fate == "reboots":
            self.after(self.random.uniform(20, 400), self.reboot, node)
            return
        if fate == "is deleted":
            self.after(COLLECTED, self.collect, node)
        self.after(REPAIRED, self.reboot, node)

    def silence(self, node, seconds):
        """Silence the kubelet of a node for a while. Its pods continue."""
        self.away[node] = self.now + seconds
        self.watch_node(node)
        self.after(seconds, self.revive, node)

    def watch_node(self, node):
        """Let the controllers act on a node that no longer answers."""
        self.silent_since[node] = self.now
        self.after(NOT_READY, self.mark_not_ready, node, self.now)
        self.after(EVICTED, self.evict, node, self.now)

    def is_silenced(self, node):
        return node in self.dead or self.away.get(node, 0.0) > self.now

    def is_silent(self, pod):
        """Return True if the kubelet of a pod is silent, or its node has died while it ran."""
        return pod.get("cut off") or self.is_silenced(pod["spec"]["nodeName"])

    def mark_not_ready(self, node, since):
        """See MarkPodsNotReady in pkg/controller/util/node/controller_utils.go."""
        if not self.is_silenced(node) or self.silent_since[node] != since:
            return
        self.tainted.add(node)
        for pod in self.on(node):
            ready = find(pod["status"]["conditions"], "Ready")
            if ready and ready["status"] == "True":
                ready.update(status="False", lastTransitionTime=stamp(self.date()))
                pod["silent"] = self.now
                self.touch(pod)

    def evict(self, node, since):
        """Delete the pods of a node without a kubelet (pkg/controller/tainteviction)."""
        goes_on = self.is_silenced(node) and self.silent_since[node] == since
        for pod in self.on(node) if goes_on else ():
            if not is_final(pod):
                self.delete_pod(pod, disrupted="DeletionByTaintManager")
                self.on_evicted(pod)

    def revive(self, node):
        if self.is_silenced(node):
            return
        self.tainted.discard(node)
        for pod in self.on(node):
            if pod["status"]["phase"] == "Running" and not pod.get("exiting"):
                self.say(pod, ContainersReady=True, Ready=True)
                self.touch(pod)

    def reboot(self, node):
        """Bring a node back, without its containers."""
        self.dead.discard(node)
        self.tainted.discard(node)
        for pod in self.on(node):
            if pod["status"]["phase"] == "Running":
                pod["exiting"] = True
                pod["status"]["containerStatuses"][0]["state"] = {"terminated": dict(UNKNOWN)}
                self.say(pod, ContainersReady=False, Ready=False)
                self.touch(pod)
                self.after(1.0, self.report_phase, pod, 137)
            elif is_deleted(pod):
                self.terminate(pod)
            elif not is_final(pod):
                self.run_pod(pod)

    def collect(self, node):
        """Delete the pods of a node that no longer exists (pkg/controller/podgc)."""
        for pod in self.on(node):
            if not is_final(pod):
                target = {"type": "DisruptionTarget", "status": "True"}
                target.update(reason="DeletionByPodGC", lastTransitionTime=stamp(self.date()))
                if not find(pod["status"]["conditions"], "DisruptionTarget"):
                    pod["status"]["conditions"].append(target)
                    self.on_evicted(pod)
                pod["status"]["phase"] = "Failed"
            self.remove_pod(pod)


class Client:
    """The API server as one supervisor sees it: with faults, and changes between its requests."""

    namespace = "team"

    def __init__(self, world, random, rate, between):
        self.world, self.random, self.rate, self.between = world, random, rate, between
        self.requests, self.times = set(), []
        self.skew = 0.0
        """Seconds by which the clock of its machine is ahead."""
        self.odd = 0.0
        """The share of answers with the time of another clock."""
        self.forget()

    def forget(self):
        """Reset to the state of a new process."""
        self.answered, world, skew = False, self.world, self.skew
        self.clock = Clock(lambda: world.now - EPOCH, lambda: world.now + skew)
        self.doomed = False
        """True if the process dies at its next request."""

    def _call(self, method, *arguments, **selectors):
        if self.doomed:
            raise Killed
        self.requests.add(rights.request(method.__name__, *arguments))
        self.times.append(self.world.now)
        if self.random.random() < self.rate:
            self.world.faults["time passes between two requests, or another supervisor acts"] += 1
            self.between()
        if self.world.holds(self.world.outage):
            self.world.faults["request while the API server is away for 300 s"] += 1
            raise ApiError("nobody answers")
        self.answered = True
        self.hear()
        if method.__name__ == "patch" and self.world.holds(self.world.conflicts):
            self.world.faults["conflict that does not end soon"] += 1
            raise ApiError('cannot be fulfilled on resourcequotas "q"', CONFLICT)
        # A supervisor that dies every few seconds for days makes no progress.
        if self.random.random() >= (self.rate if self.world.now < EPOCH + CALM else self.rate / 20):
            return method(*arguments, **selectors)
        kind = self.random.choice([*FAULTS])
        self.world.faults[FAULTS[kind]] += 1
        if kind in ("after", "odd", "killed after"):
            method(*arguments, **selectors)
        if kind == "odd":
            return self.misread(method.__name__, *arguments)
        if kind.startswith("killed") and self.world.now > self.world.immortal:
            raise Killed
        if kind == "409":
            raise ApiError("injected", CONFLICT)
        wait = retry_after(self.random.choice(RETRY_AFTER))
        raise ApiError(f"injected {kind}", 429, wait) if kind == "429" else ApiError("injected")

    def misread(self, method, kind, *_):
        """Read an answer that is not what was asked for."""
        odd = self.random.choice(ODD)
        if method == "log":
            return odd
        if method == "list":
            return page(kind, odd)
        return shaped(kind, json_of(odd)) if method in ("get", "create") else None

    def hear(self):
        """Read the header Date of an answer."""
        odd = 0.0
        if self.odd and self.random.random() < self.odd:
            self.world.faults["answer with the time of another clock"] += 1
            odd = self.random.choice(JUMPS)
        self.clock.hear(float(int(self.world.date() + odd)))

    def get(self, *arguments):
        return self._call(self.world.get, *arguments)

    def list(self, *arguments, **selectors):
        return self._call(self.world.list, *arguments, **selectors)

    def create(self, *arguments):
        return self._call(self.world.create, *arguments)

    def patch(self, *arguments):
        return self._call(self.world.patch, *arguments)

    def delete(self, *arguments):
        return self._call(self.world.delete, *arguments)

    def log(self, *arguments, **query):
        return self._call(self.world.log, *arguments, **query)
