"""A Kubernetes cluster of ordinary processes on this machine, which tests may break."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

REQUEST = "--request-timeout=5s"


class Cluster:
    """A cluster in a folder with `kubeconfig`, and `run/NAME.pid` for each process.

    `../shared/cluster/up` creates it. A killed process starts again with the same command line.
    """

    def __init__(self, folder):
        self.folder = folder
        self.environment = {
            **os.environ,
            "KUBECONFIG": str(folder / "kubeconfig"),
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        }
        running = {file.stem: command(pid(file)) for file in folder.glob("run/*.pid")}
        self.commands = {name: words for name, words in running.items() if words}

    def kill(self, name):
        """Kill a process as if its machine had lost power."""
        process = pid(self.folder / f"run/{name}.pid")
        if name in command(process):
            os.kill(process, signal.SIGKILL)

    def start(self, name, *options):
        """Start a process again, unless it runs."""
        file = self.folder / f"run/{name}.pid"
        if command(pid(file)):
            return
        with (self.folder / f"log/{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [*self.commands[name], *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
                start_new_session=True,
            )
        file.write_text(f"{process.pid}\n")

    def mend(self):
        """Start all dead processes, and wait until the cluster is healthy."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            for name in self.commands:
                self.start(name)
            if self.is_well():
                return
            time.sleep(1)
        raise TimeoutError("the cluster does not get well")

    def is_well(self):
        """Return True if the API server accepts writes and each node is ready."""
        nodes = self.json("get", "nodes")
        done = self.kubectl("annotate", "--overwrite", "node", "--all", f"chaos={time.time()}")
        conditions = [each for node in nodes["items"] for each in node["status"]["conditions"]]
        ready = [each["status"] for each in conditions if each["type"] == "Ready"]
        return done.returncode == 0 and {*ready} == {"True"}

    def option(self, name, option):
        """Return the value of an option in the command line of a process."""
        words = self.commands[name]
        return words[words.index(option) + 1]

    def kubectl(self, *words, stdin=None):
        """Run kubectl. It fails while the API server is down."""
        return self.run("kubectl", REQUEST, *words, stdin=stdin)

    def run(self, *words, stdin=None):
        return subprocess.run(
            words,
            input=stdin,
            capture_output=True,
            text=True,
            env=self.environment,
            check=False,
        )

    def json(self, *words):
        """Return kubectl's JSON output; an empty list if it fails."""
        done = self.kubectl(*words, "-o", "json")
        return json.loads(done.stdout) if done.returncode == 0 else {"items": []}


def pid(file):
    """Return the process of a file; 0 if there is none."""
    return int(file.read_text()) if file.exists() else 0


def command(process):
    """Return the command line of a process; [] if it has ended."""
    try:
        text = Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return []
    return text.split("\0")[:-1]


def environment(process):
    """Return the environment of a process; {} if it has ended."""
    try:
        text = Path(f"/proc/{process}/environ").read_text(errors="replace")
    except OSError:
        return {}
    return dict(line.partition("=")[::2] for line in text.split("\0"))
