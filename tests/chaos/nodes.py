"""A second node of the cluster, which never returns."""

import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import yaml
from cluster import command
from faults import Fault

NAME = "node-1"
IMAGES = ("docker.io/library/busybox:1.36", "mlgen.test/pause:1", "mlgen.test/python:3")
PORTS = {"port": 10260, "healthzPort": 10258}


class LostNode(Fault):
    """The job runs on a node of its own, all of which is killed at once and for ever.

    The node is a kubelet and a containerd next to those of the cluster, with their settings.
    """

    name = "node, lost"
    delay = 240
    """50 s until the controller manager notices, 10 s of the toleration, 60 s in which a pod may
    end, and the pauses of the supervisor."""
    disruptions = 2
    processes = ()

    def prepare(self):
        self.first = self.cluster.json("get", "nodes")["items"][0]["metadata"]["name"]
        self.folder = self.cluster.folder / NAME
        self.folder.mkdir(exist_ok=True)
        self.socket = Path("/run/mlgen-cluster") / f"{NAME}.sock"
        self.processes = [self.containerd()]
        self.wait(lambda: self.ctr("version").returncode == 0)
        for image in IMAGES:
            self.load(image)
        self.processes.append(self.kubelet())
        self.wait(
            lambda: self.cluster.is_well() and len(self.cluster.json("get", "nodes")["items"]) == 2
        )
        self.cluster.kubectl("cordon", self.first)

    def strike(self):
        self.cluster.kubectl("uncordon", self.first)
        self.destroy()
        return "the node is lost"

    def destroy(self):
        for process in self.processes:
            process.kill()
            process.wait()
        for shim in Path("/proc").glob("[0-9]*"):
            if {"-address", str(self.socket)} <= {*command(shim.name)}:
                for child in children(shim):
                    kill(child)
                kill(int(shim.name))

    def end(self):
        """Delete the node as a cloud does."""
        self.destroy()
        self.cluster.kubectl("uncordon", self.first)
        self.cluster.kubectl("delete", "node", NAME, "--ignore-not-found")

    def containerd(self):
        text = Path(self.cluster.option("containerd", "--config")).read_text()
        values = {"root": self.folder / "root", "state": self.socket.with_suffix("")}
        for key, value in {**values, "address": self.socket}.items():
            text = re.sub(rf'^(\s*{key} = )".*"', rf'\1"{value}"', text, flags=re.MULTILINE)
        file = self.folder / "containerd.toml"
        file.write_text(text)
        return self.start("containerd", "--config", str(file))

    def kubelet(self):
        settings = yaml.safe_load(Path(self.cluster.option("kubelet", "--config")).read_text())
        settings |= {"containerRuntimeEndpoint": f"unix://{self.socket}", "cgroupsPerQOS": False}
        settings |= {**PORTS, "podLogsDir": f"/var/log/{NAME}"}
        file = self.folder / "kubelet.yaml"
        file.write_text(yaml.safe_dump(settings))
        options = {"--config": str(file), "--hostname-override": NAME}
        options["--root-dir"] = str(self.folder / "kubelet")
        words = list(self.cluster.commands["kubelet"])
        for option, value in options.items():
            words[words.index(option) + 1] = value
        return self.start(*words)

    def start(self, *words):
        with (self.folder / f"{Path(words[0]).name}.log").open("ab") as log:
            return subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.cluster.environment,
                start_new_session=True,
            )

    def load(self, image):
        """Copy an image from the cluster's containerd."""
        text = Path(self.cluster.option("containerd", "--config")).read_text()
        first = re.search(r'address = "(.*)"', text)[1]
        words = ["ctr", "-n", "k8s.io", "-a", first, "images", "export", "-", image]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as source:
            self.ctr("images", "import", "-", stdin=source.stdout).check_returncode()

    def ctr(self, *words, stdin=subprocess.DEVNULL):
        words = ["ctr", "-n", "k8s.io", "-a", str(self.socket), *words]
        return subprocess.run(words, stdin=stdin, capture_output=True, check=False)

    def wait(self, poll):
        deadline = time.monotonic() + 90
        while not poll():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{NAME} does not start; see {self.folder}")
            time.sleep(0.5)


def children(folder):
    files = folder.glob("task/*/children")
    return [int(word) for file in files for word in file.read_text().split()]


def kill(process):
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
