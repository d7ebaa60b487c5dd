"""A namespace of a cluster, or of a control plane without nodes, and a user's commands in it."""

import json
import re
import secrets
import subprocess
import threading
import time
from contextlib import contextmanager

from click.testing import CliRunner

from mlgen.cli import main

KUBECTL_IMAGE = "mlgen.test/kubectl:1.34"
PYTHON_IMAGE = "mlgen.test/python:3"
IMAGES = (
    "--set",
    f"spec.helpers.kubectlImage={KUBECTL_IMAGE}",
    "--set",
    f"spec.helpers.pythonImage={PYTHON_IMAGE}",
)


TRIES = 5
BUSY = "Unable to connect to the server|TLS handshake timeout|context deadline exceeded"

REPORTS = r"(?m)^waiting for \S+ to start\n"
"""What kubexec.sh prints when a container takes more than ten seconds to start."""

ONE_AT_A_TIME = threading.Lock()
"""A CliRunner replaces the stdout of all threads."""

SECONDS = 600
"""Time limit of a wait: a bound for a busy machine, on which many jobs run at once."""


class Namespace:
    """A namespace, and a user's commands in it."""

    images = IMAGES
    python_image = PYTHON_IMAGE

    def __init__(self, name, environment):
        self.name, self.environment = name, environment

    def kubectl(self, *words, stdin=None, check=True):
        """Run kubectl and return its stdout."""
        done = self._run(words, stdin)
        if check and done.returncode:
            raise AssertionError(f"kubectl {' '.join(words)}: {done.stderr}")
        return done.stdout

    def stdout_and_stderr(self, *words, stdin=None):
        """Run kubectl and return its stdout and stderr."""
        done = self._run(words, stdin)
        return done.stdout, done.stderr

    def _run(self, words, stdin):
        """Run kubectl, again if it cannot reach an API server that lacks CPU."""
        command = ["kubectl", "-n", self.name, *words]
        options = {"input": stdin, "capture_output": True, "text": True, "env": self.environment}
        for _ in range(TRIES):
            done = subprocess.run(command, check=False, **options)
            if not (done.returncode and re.search(BUSY, done.stderr)):
                break
        return done

    def get(self, *words):
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def render(self, file, *words):
        return self.mlgen("render", str(file), *words)

    def mlgen(self, *words, stdin=None):
        """Run mlgen and return its stdout. A process for each job would start for half a second."""
        with ONE_AT_A_TIME:
            done = CliRunner().invoke(main, words, input=stdin)
        assert done.exit_code == 0, done.output
        return done.stdout

    def apply(self, file, *words):
        """Run `mlgen render FILE | kubectl apply -f -`, with images that exist in the cluster."""
        return self.kubectl("apply", "-f", "-", stdin=self.render(file, *IMAGES, *words))

    def argo(self, file, *words):
        """Run `mlgen argo FILE | kubectl apply --server-side -f -`, with the same images."""
        manifests = self.mlgen("argo", str(file), *IMAGES, *words)
        return self.kubectl("apply", "--server-side", "-f", "-", stdin=manifests)

    def start(self, file, *settings):
        """Apply a job file with settings such as "spec.image=example/train:1"."""
        return self.apply(file, *(f"--set={setting}" for setting in settings))

    def watch(self, description, kind, name, find, seconds=SECONDS):
        """Return the first true result of `find` for an object, which may not exist yet.

        One kubectl prints each version of the object. To poll costs a kubectl each time.
        """
        words = (kind, f"--field-selector=metadata.name={name}", "--watch", "--output=json")
        deadline, pipe = time.monotonic() + seconds, subprocess.PIPE
        while (left := deadline - time.monotonic()) > 0:  # the API server may end a watch
            command = ["timeout", f"{left + 1:.0f}", "kubectl", "-n", self.name, "get", *words]
            with subprocess.Popen(command, stdout=pipe, text=True, env=self.environment) as process:
                text = ""
                for line in process.stdout:
                    text += line
                    if line == "}\n":
                        answer, text = find(json.loads(text)), ""
                        if answer:
                            process.terminate()
                            return answer
            time.sleep(0.5)
        raise self.late(description, seconds)

    def until(self, description, poll, seconds=SECONDS):
        """Poll until the result is true and return it: for logs, files, and several objects."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            answer = poll()
            if answer:
                return answer
            time.sleep(0.5)
        raise self.late(description, seconds)

    def late(self, description, seconds):
        """Return an error that shows the pods and events."""
        state = self.kubectl("get", "pods,jobs,statefulsets", "-o", "wide")
        events = self.kubectl("get", "events", "--sort-by=.lastTimestamp")
        return AssertionError(f"not within {seconds} s: {description}\n{state}\n{events[-4000:]}")

    def ended(self, job, seconds=SECONDS):
        """Wait until a Job has ended. Return its last condition, Complete or Failed."""

        def terminal(item):
            conditions = item["status"].get("conditions", [])
            ends = [c for c in conditions if c["type"] in ("Complete", "Failed")]
            return ends[0] if ends and ends[0]["status"] == "True" else None

        return self.watch(f"Job {job} ended", "job", job, terminal, seconds)

    def recorded(self, job, find, seconds=SECONDS):
        """Return the first true result of `find` for the record of a job: see `record`."""
        name = f"{job}.status"
        found = lambda item: find(item.get("data", {}))  # noqa: E731
        return self.watch(f"the record of {job}", "configmap", name, found, seconds)

    def record(self, job):
        """Return the supervisor's record of a job: the data of the ConfigMap `<job>.status`."""
        return self.get("configmap", f"{job}.status").get("data", {})

    def conditions(self, job):
        """Return the status, time, and reason with message of each condition in the record."""
        data = self.record(job)
        return {key: text.split(" ", 2) for key, text in data.items() if key[0].isupper()}

    def active(self, job):
        """Return the pods of a job that have not ended, by role, without the supervisor's."""
        pods = {}
        for pod in self.get("pods", "-l", f"mlgen.dev/job={job}")["items"]:
            if pod["status"]["phase"] in ("Pending", "Running"):
                pods.setdefault(pod["metadata"]["labels"]["mlgen.dev/role"], []).append(pod)
        return pods

    def scale(self, job, replicas):
        """Scale an Indexed Job as in the README: change completions and parallelism together."""
        patch = {"spec": {"completions": replicas, "parallelism": replicas}}
        self.kubectl("patch", "job", job, "-p", json.dumps(patch))

    def pods(self, job):
        return self.get("pods", "-l", f"batch.kubernetes.io/job-name={job}")["items"]

    def completed(self, job, seconds=SECONDS):
        """Wait until a Job has succeeded. Return the log of each of its pods as a list of lines.

        Reports of kubexec.sh are omitted, because they depend on the load of the machine.
        """
        condition = self.ended(job, seconds)
        logs = {pod["metadata"]["name"]: self.log(pod) for pod in self.pods(job)}
        summary = "\n".join(f"{name}: {text}" for name, text in logs.items())
        assert condition["type"] == "Complete", f"{condition}\n{summary}"
        return [re.sub(REPORTS, "", text).splitlines() for text in logs.values()]

    def log(self, pod, container=None):
        """Return the log of a container, by default the pod's first, the training container."""
        container = container or pod["spec"]["containers"][0]["name"]
        return self.kubectl("logs", pod["metadata"]["name"], "-c", container, check=False)


@contextmanager
def temporary_namespace(environment):
    name = f"mlgen-{secrets.token_hex(4)}"
    created = Namespace(name, environment)
    created.kubectl("create", "namespace", name)
    created.kubectl("wait", "serviceaccount/default", "--for=create", "--timeout=60s")
    try:
        yield created
    finally:
        # Jobs are deleted first: a failed pod of a Job with backoffLimitPerIndex stays until the
        # Job creates another pod, which is not possible in a namespace that is being deleted.
        created.kubectl("delete", "jobs", "--all", "--wait=false")
        created.kubectl("delete", "namespace", name, "--wait=false")
