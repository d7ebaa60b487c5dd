"""A model of the Job and the StatefulSet controller of Kubernetes 1.34.

`sync_job` follows `syncJob` in pkg/controller/job/job_controller.go of v1.34.4 step by step, for
Indexed Jobs. Left out: `maxFailedIndexes`, `successPolicy`, and the slow start of pods.
"""

import json

from mlgen.runtime.cluster import TRACKING
from mlgen.runtime.status import stamp
from mlgen.runtime.times import seconds

FINAL = ("Succeeded", "Failed")
FIRST_BACKOFF, MAX_BACKOFF = 10.0, 600.0
"""DefaultJobPodFailureBackOff and MaxJobPodFailureBackOff."""


def intervals(indexes):
    """Return indexes in the form of `status.completedIndexes`: 0,1,3-5."""
    runs = []
    for index in sorted(indexes):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    forms = (f"{a}" if a == b else f"{a},{b}" if b == a + 1 else f"{a}-{b}" for a, b in runs)
    return ",".join(forms)


def indexes_of(text):
    """Return the indexes of `status.completedIndexes`."""
    pairs = [run.split("-") for run in text.split(",") if run]
    return {index for pair in pairs for index in range(int(pair[0]), int(pair[-1]) + 1)}


def is_final(pod):
    return pod["status"]["phase"] in FINAL


def is_tracked(pod):
    return TRACKING in pod["metadata"].get("finalizers", ())


def is_deleted(pod):
    return "deletionTimestamp" in pod["metadata"]


def is_active(pod):
    return not is_final(pod) and not is_deleted(pod)


def find(conditions, name):
    return next((each for each in conditions if each["type"] == name), None)


def exit_code(pod):
    """Return the exit code of the training container, or 0."""
    for each in pod["status"].get("containerStatuses", ()):
        return each["state"].get("terminated", {"exitCode": 0})["exitCode"]
    return 0


def finished_at(pod):
    """Return the end time of a pod from its status (getFinishedTime in backoff_utils.go).

    The clock of the control plane does not count here, because a jump delays a Job's own restarts.
    """
    ends = [each["state"].get("terminated") for each in pod["status"].get("containerStatuses", ())]
    if ends and all(end and end["finishedAt"] for end in ends):
        return max(seconds(end["finishedAt"]) for end in ends)
    ready = find(pod["status"]["conditions"], "Ready")
    if ready and ready["status"] == "False":
        return pod.get("silent", seconds(ready["lastTransitionTime"]))
    return pod.get("deleted", pod["created"])


class Controllers:
    """The part of a `World` that acts on Jobs and StatefulSets."""

    def sync_job(self, job):
        spec, status = job["spec"], job["status"]
        conditions = status.setdefault("conditions", [])
        if find(conditions, "Complete") or find(conditions, "Failed"):
            return
        before = json.dumps(status)
        size, pods = spec.get("completions", 1), self.pods(job)
        active = [pod for pod in pods if is_active(pod)]
        tracked = [pod for pod in pods if is_tracked(pod) and pod["index"] < size]
        failed = [pod for pod in tracked if self.is_failed(job, pod)]
        done = {each for each in indexes_of(status.get("completedIndexes", "")) if each < size}
        done |= {pod["index"] for pod in tracked if pod["status"]["phase"] == "Succeeded"}
        delayed = self.delayed(job, failed, active, done)
        self.note_failures(job, [pod for pod in tracked if not pod.get("noted")])
        if "startTime" not in status and not spec.get("suspend"):
            status["startTime"], job["began"] = stamp(self.date()), self.now

        end = find(conditions, "SuccessCriteriaMet") or find(conditions, "FailureTarget")
        if not end and (reason := self.why_failed(job, failed)):
            end = {"type": "FailureTarget", "status": "True", "reason": reason, "message": "model"}
            end["lastTransitionTime"] = stamp(self.date())
            conditions.append(end)
            self.ends.setdefault(job["metadata"]["name"], False)
        if end:
            for pod in active:
                self.delete_pod(pod)
            active = []
        elif is_deleted(job):  # a finalizer of another program keeps it
            pass
        else:
            self.manage_job(job, active, done, delayed)
            active = [pod for pod in self.pods(job) if is_active(pod)]
            if len(done) >= size and not active:
                end = {"type": "SuccessCriteriaMet", "status": "True", "reason": "Completions"}
                conditions.append(end)
                self.ends.setdefault(job["metadata"]["name"], True)
            else:
                self.set_suspended(job)
        pods = self.pods(job)
        status["terminating"] = sum(is_deleted(pod) and not is_final(pod) for pod in pods)
        status["active"] = len(active)
        status["ready"] = sum(pod["status"]["phase"] == "Running" for pod in active)
        status["completedIndexes"], status["succeeded"] = intervals(done), len(done)
        self.count(job, pods, delayed, end)
        uncounted = any(status["uncountedTerminatedPods"].values())
        if end and not uncounted and not status["terminating"]:  # enactJobFinished
            met = end["type"] == "SuccessCriteriaMet"
            conditions.append({**end, "type": "Complete" if met else "Failed"})
        if json.dumps(status) != before:
            self.touch(job)

    @staticmethod
    def is_failed(job, pod):
        """Return True if a Job treats a pod as failed (isPodFailed).

        With a podFailurePolicy, a deleted pod is failed only after it has ended
        (onlyReplaceFailedPods).
        """
        phase = pod["status"]["phase"]
        early = is_deleted(pod) and not job["spec"].get("podFailurePolicy")
        return phase == "Failed" or (early and phase != "Succeeded")

    @staticmethod
    def delayed(job, failed, active, done):
        """Return the failed pods, by index, that stay uncounted until they are replaced
        (getPodsWithDelayedDeletionPerIndex)."""
        if not job["spec"].get("backoffLimitPerIndex"):
            return {}
        settled = {pod["index"] for pod in active} | done
        failed = sorted(failed, key=lambda pod: (pod["failures"], finished_at(pod)))
        return {pod["index"]: pod for pod in failed if pod["index"] not in settled}

    @staticmethod
    def counts(job, pod):
        """Return True if a failure counts (matchPodFailurePolicy, with the rules of mlgen)."""
        policy = job["spec"].get("podFailurePolicy")
        return not policy or not find(pod["status"]["conditions"], "DisruptionTarget")

    def note_failures(self, job, new):
        """Reset or continue the back-off of a Job (newBackoffRecord)."""
        failed = [pod for pod in new if self.is_failed(job, pod)]
        done = [pod for pod in new if pod["status"]["phase"] == "Succeeded"]
        since = max(map(finished_at, done), default=None)
        if since is not None:
            job["backoff"] = (0, 0.0)
            failed = [pod for pod in failed if finished_at(pod) > since]
        if failed:
            count, _ = job.get("backoff", (0, 0.0))
            job["backoff"] = (count + len(failed), max(map(finished_at, failed)))
        for pod in [*failed, *done]:
            pod["noted"] = True

    def why_failed(self, job, failed):
        """Return the reason for which a Job fails now, also while it is suspended."""
        spec, status = job["spec"], job["status"]
        counted = [pod for pod in failed if self.counts(job, pod)]
        if spec.get("podFailurePolicy") and any(0 < exit_code(pod) < 128 for pod in counted):
            return "PodFailurePolicy"
        if status.get("failed", 0) + len(counted) > spec.get("backoffLimit", 6):
            return "BackoffLimitExceeded"
        deadline = spec.get("activeDeadlineSeconds")
        if deadline is None or spec.get("suspend"):
            return ""
        left = job["began"] + deadline - self.now
        if left > 0:
            self.after(left + 0.001, self.awake)
            return ""
        return "DeadlineExceeded"

    def manage_job(self, job, active, done, delayed):
        """Delete or create pods (manageJob)."""
        spec = job["spec"]
        size, parallelism = spec.get("completions", 1), spec.get("parallelism", 1)
        wanted = 0 if spec.get("suspend") else max(0, min(size - len(done), parallelism))
        if len(active) > wanted:
            # Pods with indexes that no longer exist are deleted first (activePodsForRemoval).
            active = sorted(active, key=lambda pod: pod["index"], reverse=True)
            for pod in active[: len(active) - wanted]:
                self.delete_pod(pod, by_controller=True)
            return
        occupied = {pod["index"] for pod in active} | done
        missing = wanted - len(active)
        if spec.get("podFailurePolicy"):
            ending = [p for p in self.pods(job) if is_deleted(p) and not is_final(p)]
            occupied |= {pod["index"] for pod in ending}
            missing -= len(ending)
        pending = [index for index in range(size) if index not in occupied][: max(0, missing)]
        for index in pending:
            count, at = job.get("backoff", (0, 0.0))
            if spec.get("backoffLimitPerIndex"):
                old = delayed.get(index)
                count, at = (old["failures"] + 1, finished_at(old)) if old else (0, 0.0)
            until = at + min(FIRST_BACKOFF * 2.0 ** (count - 1), MAX_BACKOFF) if count else 0.0
            if until > self.now:
                self.after(until - self.now, self.awake)
            else:
                self.create_pod(job, index, count)

    def count(self, job, pods, delayed, end):
        """Count the ended pods, and remove their finalizers (trackJobStatusAndRemoveFinalizers).

        The API server may show the UIDs of pods for a moment before their number.
        """
        spec, status = job["spec"], job["status"]
        for pod in pods:
            succeeded, failed = pod["status"]["phase"] == "Succeeded", self.is_failed(job, pod)
            if not is_tracked(pod) or (pod in delayed.values() and not end):
                continue
            if not succeeded and not failed and not end:
                continue
            lost = end and end["type"] == "FailureTarget"  # fails all unfinished indexes
            if pod["index"] < spec.get("completions", 1) and not succeeded and (failed or lost):
                job.setdefault("uncounted", []).append(int(self.counts(job, pod)))
            self.let_go(pod)
        if job.get("uncounted") and self.random.random() < 0.3:
            status["uncountedTerminatedPods"] = {"failed": ["uid"]}
            self.dirty = True
            return
        status["failed"] = status.get("failed", 0) + sum(job.pop("uncounted", ()))
        status["uncountedTerminatedPods"] = {}

    def set_suspended(self, job):
        value = "True" if job["spec"].get("suspend") else "False"
        found = find(job["status"]["conditions"], "Suspended")
        if found and found["status"] != value:
            found["status"] = value
            if value == "False":
                job["status"]["startTime"], job["began"] = stamp(self.date()), self.now
        elif not found and value == "True":
            job["status"]["conditions"].append({"type": "Suspended", "status": value})

    def sync_set(self, body):
        spec, status = body["spec"], body["status"]
        before = json.dumps(status)
        size = spec.get("replicas", 1)
        for pod in self.pods(body):
            if pod["index"] >= size or is_final(pod):
                self.delete_pod(pod, by_controller=True)
        for index in range(size):
            # Names contain the index, so a pod is replaced after it is deleted.
            if ("Pod", f"{body['metadata']['name']}-{index}") not in self.objects:
                self.create_pod(body, index)
        pods = self.pods(body)
        status["replicas"] = len(pods)
        status["readyReplicas"] = sum(
            pod["status"]["phase"] == "Running" and not is_deleted(pod) for pod in pods
        )
        status["observedGeneration"] = body["metadata"]["generation"]
        if json.dumps(status) != before:
            self.touch(body)
