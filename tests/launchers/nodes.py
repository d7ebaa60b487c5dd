"""The second node of a private cluster, which is lost when all jobs wait for the loss."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "chaos"))

NAME = "node-1"
UNTIL_ALL_WAIT = 1200
"""Time limit in seconds, for a busy machine."""

AWAY = 240
"""Seconds until a disconnected node is back, and until a dead node is deleted."""


class SecondNode:
    """The second node.

    Args:
        cluster: the folder of the private cluster.
        jobs: the number of jobs that wait for its loss.
    """

    def __init__(self, cluster, jobs):
        self.folder, self.how = Path(cluster) / NAME, None
        self.all_wait = threading.Barrier(jobs, self._lose)
        self.back = None

    def lose(self, how):
        """Wait for the other jobs, and lose the node; return the time of the loss."""
        self.how = how
        self.all_wait.wait(UNTIL_ALL_WAIT)
        return self.at

    def _lose(self):
        self.at = time.time()
        self.how(self)

    def drain(self):
        kubectl("drain", NAME, "--delete-emptydir-data", "--force", "--timeout=120s")
        self.later(kubectl, "uncordon", NAME)

    def cut_off(self):
        subprocess.run(["ip", "link", "set", NAME, "down"], check=True)
        self.later(subprocess.run, ["ip", "link", "set", NAME, "up"])

    def destroy(self):
        """Kill all processes of the node. Later, the node is deleted as by a cloud."""
        from nodes import destroy

        destroy(self.folder)
        self.later(kubectl, "delete", "node", NAME)

    def later(self, action, *words):
        self.back = threading.Timer(AWAY, action, words)
        self.back.start()


def kubectl(*words):
    subprocess.run(["kubectl", *words], check=False, stdout=subprocess.DEVNULL, env=os.environ)
