"""A job in the cluster, as its user sees it. Tests can end its replicas."""

SECONDS = 600
"""Time limit of a wait in seconds. A busy machine takes minutes to start a pod."""


class Training:
    """The job of `wide-deep.mlgen.yaml`, under any name, in a namespace of a real cluster."""

    def __init__(self, namespace, name):
        self.namespace, self.name = namespace, name

    def uids(self):
        """Return the UID of each Job by role, including the supervisor's."""
        jobs = self.namespace.get("jobs", "-l", f"mlgen.dev/job={self.name},mlgen.dev/role")
        return {
            each["metadata"]["labels"]["mlgen.dev/role"]: each["metadata"]["uid"]
            for each in jobs["items"]
        }

    def runs(self, **replicas):
        """Wait until the given number of pods of each role run."""
        replicas = replicas or {"trainer": 1, "server": 2, "worker": 2}

        def running():
            selector = f"mlgen.dev/job={self.name},mlgen.dev/role"
            pods = self.namespace.get("pods", "-l", selector)["items"]
            pods = [each for each in pods if "deletionTimestamp" not in each["metadata"]]
            phases = [
                (pod["metadata"]["labels"]["mlgen.dev/role"], pod["status"]["phase"])
                for pod in pods
            ]
            return {role: phases.count((role, "Running")) for role in replicas} == replicas

        self.namespace.until(f"{replicas} of {self.name} run", running, SECONDS)

    def pods(self, role, *words):
        """Return the names of the pods of a role, or of those that words for kubectl select."""
        selector = f"mlgen.dev/job={self.name},mlgen.dev/role={role}"
        words = ("get", "pods", "-l", selector, "-o", "name", *words)
        return set(self.namespace.kubectl(*words).split())

    def ends(self, role, code, pick=min):
        """End one running pod of a role with an exit code."""
        pod = pick(self.pods(role, "--field-selector=status.phase=Running"))
        self.namespace.kubectl("exec", pod, "--", "sh", "-c", f"echo {code} > /tmp/code")

    def ended(self):
        """Wait until the supervisor has ended, and the pods that it stops are deleted."""
        self.namespace.ended(f"{self.name}-supervisor", SECONDS)
        self.stops()

    def stops(self):
        """Wait until no pod runs."""
        self.namespace.until(f"pods of {self.name} are gone", self.is_stopped, SECONDS)

    def is_stopped(self):
        return not self.namespace.active(self.name)


def replaced(namespace, job, old):
    """Wait until the only Jobs of a job with a hash in its name have another name; return it."""

    def name():
        jobs = namespace.get("jobs", "-l", f"app.kubernetes.io/part-of={job}")["items"]
        names = {each["metadata"]["labels"]["mlgen.dev/job"] for each in jobs}
        return names.pop() if len(names - {old}) == len(names) == 1 else None

    return namespace.until(f"no objects of {old}", name, SECONDS)
