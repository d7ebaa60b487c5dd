"""Plays a job: it is applied and killed, and must end as documented."""

import json
import re
import shutil
import subprocess
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from launchers.commands import PROGRAM

HERE = Path(__file__).parent
STEPS = 20
BOUND = 600
"""Time limit in seconds for each phase of a job, for a busy machine."""


@dataclass
class Result:
    """The result: the record's numbers, and the deviations from the documentation."""

    end: str
    restarts: int
    disruptions: int
    seconds: float | None
    """Seconds from the death until all ranks train again."""
    took: float
    problems: list[str] = field(default_factory=list)


class Play:
    """Plays a death in a job with a launcher.

    Args:
        namespace: the namespace of the job, which other jobs may share.
        folder: the job's folder, which its pods mount.
        launcher: a Launcher.
        death: a Death.
        volumes: additional volumes.
    """

    def __init__(self, namespace, folder, launcher, death, volumes=None):
        self.namespace, self.folder = namespace, folder
        if launcher.aborts and death.how == "exit 42":
            death = replace(death, end="Succeeded", restarts=1, attempts=2)
        self.launcher, self.death = launcher, death
        self.job = re.sub(r"\W+", "-", f"{launcher.name}-{death.name}".lower())
        self.spec = merged(
            {
                "image": f"mlgen.test/{launcher.image}",
                "roles": launcher.roles,
                "volumes": {
                    "data": {"mountPath": "/data", "hostPath": str(folder)},
                    "code": {
                        "mountPath": "/code",
                        "files": {Path(PROGRAM).name: (HERE / "train.py").read_text()},
                    },
                    **(volumes or {}),
                },
                "template": {"spec": {"terminationGracePeriodSeconds": 5}},
                "runPolicy": {"restartScope": "All", "backoffLimit": 3},
            },
            launcher.spec,
            death.spec,
            {"roles": {"worker": death.worker}},
            {"roles": {launcher.decider: death.decider}},
        )
        self.options = []
        if death.how == "memory":
            limits = {"limits": {"memory": launcher.memory}, "requests": {"memory": "300Mi"}}
            self.spec["roles"]["worker"]["resources"] = limits
        self.started, self.died, self._later = time.time(), None, []
        self.node = None

    def restart_in_place(self):
        """Let the job restart in its pods."""
        self.spec["runPolicy"]["restartMode"] = "InPlace"
        self.options = ["--kube-version=1.36"]

    def run(self):
        """Play the death, and return the result."""
        self.started = time.time()
        self.folder.mkdir(exist_ok=True)
        self.folder.chmod(0o777)
        (self.folder / "death.json").write_text(json.dumps(self.death.how))
        try:
            self.start()
            self.wait()
        finally:
            for action in self._later:
                action()
        return self.result()

    def start(self):
        if self.death.strike and self.death.how != "held":
            self.death.strike(self)
            return
        self.apply()
        if self.death.how == "held":
            self.until("it trains", lambda: self.has("held") or self.has_ended())
            self.death.strike(self)

    def file(self):
        file = self.folder / "job.json"
        head = {"apiVersion": "mlgen.dev/v1alpha1", "kind": "TrainingJob"}
        document = {**head, "metadata": {"name": self.job}, "spec": self.spec}
        file.write_text(json.dumps(document))
        return file

    def apply(self):
        self.namespace.apply(self.file(), *self.options)

    def mark(self):
        """Remember the time of the death."""
        self.died = time.time()

    def lose(self, how):
        """Lose the second node when all jobs wait for the loss."""
        self.died = self.node.lose(how)

    def later(self, action):
        """Run an action at the end of the play."""
        self._later.append(action)

    def has(self, file):
        return (self.folder / file).exists()

    def until(self, what, poll):
        """Poll rarely, because kubectl needs much CPU on a small machine."""
        return self.namespace.until(f"{self.job}: {what}", slowly(poll), BOUND)

    def worker(self):
        """Return the name of the last worker's pod, which runs rank 1 or a later rank."""
        selector = f"mlgen.dev/job={self.job},mlgen.dev/role=worker"
        pods = self.namespace.get("pods", "-l", selector)["items"]
        return max(pods, key=index)["metadata"]["name"]

    def first_node(self):
        return self.namespace.get("nodes")["items"][0]["metadata"]["name"]

    def has_event(self, reason):
        events = self.namespace.get("events", "--field-selector", f"reason={reason}")["items"]
        return any(self.job in event["involvedObject"]["name"] for event in events)

    def has_ended(self):
        record = self.record()
        return any(record.get(key, "").startswith("True ") for key in ("Succeeded", "Failed"))

    def record(self):
        words = ("get", "configmap", f"{self.job}.status", "-o", "json")
        text = self.namespace.kubectl(*words, check=False)
        return json.loads(text).get("data", {}) if text else {}

    def wait(self):
        """Wait for the end of the supervisor, which ends last."""
        words = ("wait", f"job/{self.job}-supervisor", "--for=condition=Complete")
        self.namespace.kubectl(*words, f"--timeout={BOUND}s", check=False)

    def result(self):
        record, death = self.record(), self.death
        ends = [key for key in ("Succeeded", "Failed") if record.get(key, "")[:5] == "True "]
        result = Result(
            ends[0] if ends else "no end",
            int(record.get("restarts", 0)),
            int(record.get("disruptions", 0)),
            self.seconds(),
            time.time() - self.started,
        )
        why = " ".join(record[end].split(" ", 2)[2] for end in ends)
        if result.end != death.end:
            result.problems.append(f"{result.end}, not {death.end}: {why}")
        fewest = 0 if death.in_place and self.launcher.serves else death.restarts
        if not fewest <= result.restarts <= death.restarts:
            result.problems.append(f"restarts: {result.restarts}, not {death.restarts}: {why}")
        if result.disruptions != death.disruptions:
            result.problems.append(f"disruptions: {result.disruptions}, not {death.disruptions}")
        result.problems += self.problems_of_steps()
        if result.problems:
            result.problems += self.explained()
        return result

    def explained(self):
        """Yield information that helps to debug a deviation."""
        selector = ("-l", f"mlgen.dev/job={self.job}")
        yield self.namespace.kubectl("get", "pods,jobs,statefulsets", *selector, "-o", "wide")
        yield self.namespace.kubectl(
            "logs", *selector, "--all-containers", "--prefix", "--tail=40", check=False
        )
        yield json.dumps(self.record(), indent=1)
        yield from (file.read_text() for file in sorted(self.folder.glob("log-*")))

    def seconds(self):
        """Return the seconds from the death until all ranks train; None if they do not."""
        if self.has("died") and self.death.how:
            self.died = float((self.folder / "died").read_text())
        if not self.died:
            return None
        logs = [self.lines(rank) for rank in self.ranks()]
        again = [[at for word, _, at in log if word == "step" and at > self.died] for log in logs]
        return max(min(times) for times in again) - self.died if all(again) else None

    def ranks(self):
        """Return the numbers of the ranks that have trained, and of the ranks in every job."""
        return range(max(2, len([*self.folder.glob("log-*")])))

    def lines(self, rank):
        """Return the word, step and time of each line that a rank wrote."""
        file = self.folder / f"log-{rank}"
        words = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
        return [(word, int(step), float(at)) for word, step, at in words]

    def problems_of_steps(self):
        """Yield the problems in the steps: a gap, one attempt too many, or an early end."""
        attempts, last = self.death.attempts, STEPS if self.death.end == "Succeeded" else None
        for rank in self.ranks():
            lines, at, found = self.lines(rank), 0, 0
            for word, step, _ in lines:
                # The step before a death may run again, if its checkpoint was not written.
                expected = (at - 1, at) if word == "start" else (at,)
                found += word == "start"
                if step not in expected and not (rank and word == "start"):
                    yield f"rank {rank}: {word} {step} after {at} steps"
                at = step if word == "start" else step + 1
            if found != attempts:
                yield f"rank {rank}: started {found} times, not {attempts}"
            if last and at != last:
                yield f"rank {rank}: {at} steps, not {last}"


def merged(*parts):
    """Return one dict that merges all."""
    whole = {}
    for part in parts:
        for key, value in part.items():
            is_dict = isinstance(value, dict)
            whole[key] = merged(whole.get(key, {}), value) if is_dict else value
    return whole


def index(pod):
    labels = pod["metadata"]["labels"]
    names = ("batch.kubernetes.io/job-completion-index", "apps.kubernetes.io/pod-index")
    return max(int(labels.get(name, 0)) for name in names)


def slowly(poll):
    def polled():
        time.sleep(1)
        return poll()

    return polled


def prepare(namespace):
    """Create the keys for launchers over ssh."""
    namespace.kubectl("apply", "-f", "-", stdin=namespace.mlgen("ssh-secret", "keys"))


def tools(folder, launcher, python="3.11"):
    """Install the packages that are missing in the image of a launcher; return the volumes."""
    library = folder / "library"
    command = ["pip", "install", "-q", "--target", library, "--python-version", python]
    subprocess.run([*command, "--only-binary=:all:", *launcher.library], check=True)
    shutil.copytree(HERE / "tools", folder / "tools")
    return {
        "library": {"mountPath": "/opt/ray", "hostPath": str(library), "readOnly": True},
        "tools": {
            "mountPath": "/usr/local/bin",
            "hostPath": str(folder / "tools"),
            "readOnly": True,
        },
    }
