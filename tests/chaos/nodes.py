"""A second node of the cluster, which is lost forever."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from cluster import command
from faults import Fault
from parts.private import NODE, share

NUMBER = 1
NAME = f"node-{NUMBER}"


class LostNode(Fault):
    """The job runs on a second node. All processes of this node are killed at once, forever."""

    name = "node, lost"
    delay = 240
    """50 s until the controller manager notices, 10 s of the toleration, 60 s in which a pod may
    end, and the pauses of the supervisor."""
    disruptions = 2

    def prepare(self):
        self.first = self.cluster.json("get", "nodes")["items"][0]["metadata"]["name"]
        self.folder = self.cluster.folder / NAME
        if not self.folder.exists():
            share(self.cluster.folder / "containerd", self.folder / "containerd")
        words = [NODE, self.cluster.folder, str(NUMBER)]
        subprocess.run(words, check=True, env=self.cluster.environment)
        self.cluster.kubectl("cordon", self.first)

    def strike(self):
        self.cluster.kubectl("uncordon", self.first)
        self.destroy()
        return "the node is lost"

    def destroy(self):
        destroy(self.folder)

    def end(self):
        """Delete the node as a cloud does."""
        self.destroy()
        self.cluster.kubectl("uncordon", self.first)
        self.cluster.kubectl("delete", "node", NAME, "--ignore-not-found")


def destroy(folder):
    """Kill all processes of the second node, which uses this folder."""
    for file in folder.glob("run/*.pid"):
        kill(int(file.read_text()))
    for shim in Path("/proc").glob("[0-9]*"):
        if {"-address", f"/run/mlgen-cluster/{NAME}.sock"} <= {*command(shim.name)}:
            for child in children(shim):
                kill(child)
            kill(int(shim.name))


def children(folder):
    files = folder.glob("task/*/children")
    return [int(word) for file in files for word in file.read_text().split()]


def kill(process):
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
