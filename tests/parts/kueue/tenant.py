"""A team of a cluster with Kueue: its namespace, its quota, and its jobs."""

import json
import subprocess
import sys
import time

MLGEN = [sys.executable, "-m", "mlgen"]


class Tenant:
    """A namespace with the LocalQueue `research`. Its ClusterQueue has the namespace's name."""

    def __init__(self, created, name, quota, flavor="any", labels=(), **fields):
        self.created, self.name = created, name
        created.kubectl("create", "namespace", name)
        for label in labels:
            created.kubectl("label", "namespace", name, label)
        resources = [{"name": key, "nominalQuota": value} for key, value in quota.items()]
        flavors = [{"name": flavor, "resources": resources}]
        groups = [{"coveredResources": [*quota], "flavors": flavors}]
        self.add("ResourceFlavor", "any")
        spec = {"namespaceSelector": {}, "resourceGroups": groups, **fields}
        self.add("ClusterQueue", name, spec=spec)
        self.add("LocalQueue", "research", name, spec={"clusterQueue": name})

    def add(self, kind, name, namespace=None, **fields):
        """Apply an object of Kueue."""
        metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
        item = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata}
        self.created.kubectl("apply", "-f", "-", stdin=json.dumps(item | fields))

    def clear(self):
        """Delete all jobs, and wait until their pods are deleted from the nodes."""
        self.kubectl("delete", "jobs,statefulsets", "--all")
        self.kubectl("delete", "workloads", "--all", "--wait=false")
        self.until(lambda: not self.listed("pods"))

    def kubectl(self, *words, **options):
        """Run kubectl in the namespace."""
        return self.created.kubectl("-n", self.name, *words, **options)

    def listed(self, *words):
        """Return objects of the namespace."""
        return json.loads(self.kubectl("get", *words, "-o", "json"))["items"]

    def mlgen(self, *words, job):
        """Run mlgen on a job file, and return its output."""
        document = job.replace("namespace: team", f"namespace: {self.name}")
        options = {"input": document, "capture_output": True, "text": True}
        command, environment = [*MLGEN, words[0], "-", *words[1:]], self.created.environment
        done = subprocess.run(command, check=False, env=environment, **options)
        return done.stdout + (done.stderr if done.returncode else "")

    def doctor(self, job):
        """Return the output of `mlgen doctor` for a job, with single spaces."""
        return " ".join(self.mlgen("doctor", job=job).split())

    def apply(self, job):
        """Apply a job file, and return its manifests."""
        manifests = self.mlgen("render", job=job)
        self.kubectl("apply", "-f", "-", stdin=manifests)
        return manifests

    def pods(self, job):
        """Return the pods of a job that are not being deleted."""
        pods = self.listed("pods", "-l", f"mlgen.dev/job={job}")
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def phases(self, job):
        """Return the phases of a job's pods."""
        return sorted(pod["status"]["phase"] for pod in self.pods(job))

    def until(self, condition):
        """Wait until a condition holds."""
        self.created.until(condition, seconds=240)

    def until_running(self, job, pods):
        """Wait until a number of pods of a job run."""
        self.until(lambda: self.phases(job).count("Running") == pods)

    def finish(self, job, phase="Succeeded", code=0, role=""):
        """End the running pods of a job or role, with the status that a kubelet reports."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        state = {"terminated": {"exitCode": code, "reason": "Completed", "finishedAt": now}}
        for pod in self.pods(job):
            own = pod["metadata"]["labels"]["mlgen.dev/role"]
            if pod["status"]["phase"] == "Running" and role in ("", own):
                [container] = pod["status"]["containerStatuses"]
                status = {"phase": phase, "containerStatuses": [container | {"state": state}]}
                words = ("patch", "pod", pod["metadata"]["name"], "--subresource=status")
                self.kubectl(*words, "--type=merge", "-p", json.dumps({"status": status}))

    def reserved(self, resource="cpu"):
        """Return the reserved amount of a resource in the quota."""
        queue = self.created.get("clusterqueue", self.name)
        usage = queue.get("status", {}).get("flavorsReservation") or []
        amounts = [each for flavor in usage for each in flavor["resources"]]
        return sum(int(each["total"]) for each in amounts if each["name"] == resource)

    def until_reserved(self, amount, resource="cpu"):
        """Wait until this amount of a resource is reserved."""
        self.until(lambda: self.reserved(resource) == amount)

    def conditions(self, workload):
        """Return the messages of a Workload by condition type and status; {} if there is none."""
        items = self.listed("workloads")
        own = [item for item in items if item["metadata"]["name"].startswith(workload)]
        conditions = [each for item in own for each in item.get("status", {}).get("conditions", ())]
        return {(each["type"], each["status"]): each["message"] for each in conditions}

    def until_waiting(self, workload, text):
        """Wait until Kueue reports why a Workload has no quota."""
        pending = ("QuotaReserved", "False")
        self.until(lambda: text in self.conditions(workload).get(pending, ""))
