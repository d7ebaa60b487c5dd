"""A model of restarts in place: the kubelet restarts all containers of a pod (KEP-5532).

The sidecar follows `templates/scripts/supervised.sh`. Left out: init containers and start errors
that fail a later start, pods that restart in place after their node has rebooted, and requests to a
supervisor that hangs.
"""

from runtime.controllers import is_deleted, is_final

from mlgen.runtime.cluster import RESTARTING, SIDECAR

WAITING = {"waiting": {"reason": "PodInitializing"}}


def has_sidecar(pod):
    return SIDECAR in [each["name"] for each in pod["spec"].get("initContainers", ())]


def main_of(pod):
    """Return the status of the training container; {} before it has one."""
    return next(iter(pod["status"].get("containerStatuses", ())), {})


def waits(pod):
    """Return True if a pod has run before, and waits for the next attempt."""
    return pod.get("number") is not None and "waiting" in main_of(pod)["state"]


class Sidecars:
    """The part of a `World` with the sidecars."""

    def during(self, seconds, what, pod, *arguments):
        """Like `after`, unless the containers of the pod restart before."""
        self.after(seconds, self.if_same, pod.get("run", 0), what, pod, *arguments)

    def if_same(self, run, what, pod, *arguments):
        if pod.get("run", 0) == run:
            what(pod, *arguments)

    def follow(self, pod):
        """Let the sidecar start the training container, or wait for the next attempt."""
        if pod.get("number") is None:
            pod["number"] = ""  # the file in the volume
            self.begin(pod)
        self.during(0.0, self.ask, pod)

    def ask(self, pod):
        """Let the sidecar send a request, which its supervisor may hold."""
        node = pod["spec"]["nodeName"]
        if is_deleted(pod) or is_final(pod) or not self.exists(pod) or node in self.dead:
            return
        away = self.away.get(node, 0.0) - self.now
        if away > 0:
            self.during(away, self.ask, pod)
            return
        pod["at"] = None
        pod["query"] = "attempt" if "running" in main_of(pod)["state"] else "after"
        if pod.get("restarted alone"):
            pod["query"] = "after"
        self.on_request(pod)

    def hear(self, pod, answer):
        """Let the sidecar act on an answer; "" if there is none."""
        word, _, number = answer.strip().partition(" ")
        pod["at"] = None
        if is_final(pod) or "terminated" in main_of(pod)["state"]:
            return
        if word == "restart":
            self.restart_all(pod)
            return
        if word in ("start", "is"):
            pod["number"] = number
        if word == "start":
            pod["restarted alone"] = False
            if "running" not in main_of(pod)["state"]:
                self.begin(pod)
        self.during(0.0 if word else self.random.uniform(1.0, 3.0), self.ask, pod)

    def restart_all(self, pod):
        """Restart all containers of a pod, because one of them has failed or asks for it."""
        if self.waits_for_kubelet(pod, self.restart_all, pod) or is_final(pod):
            return
        pod["run"], pod["exiting"], pod["at"] = pod.get("run", 0) + 1, True, None
        self.during(self.random.choice((0.05, 0.1, 2.0)), self.remove_containers, pod)

    def remove_containers(self, pod):
        if self.waits_for_kubelet(pod, self.remove_containers, pod) or is_final(pod):
            return
        if is_deleted(pod):
            self.report_phase(pod, 137)
            return
        self.faults["pod whose containers restart in place"] += 1
        end = {"exitCode": 137, "reason": RESTARTING, "finishedAt": self.clock(pod)}
        for key in ("initContainerStatuses", "containerStatuses"):
            for each in pod["status"][key]:
                each.update(state=dict(WAITING), lastState={"terminated": dict(end)})
                each["restartCount"] += 1
        pod["status"]["phase"] = "Pending"
        self.say(pod, Initialized=False, ContainersReady=False, Ready=False)
        self.touch(pod)
        self.during(self.random.uniform(0.2, 2.0), self.run_again, pod)

    def run_again(self, pod):
        if self.waits_for_kubelet(pod, self.run_again, pod) or is_deleted(pod):
            return
        for each in pod["status"]["initContainerStatuses"]:
            if each["name"] != "fetch":
                each["state"] = {"running": {"startedAt": self.clock(pod)}}
        self.touch(pod)
        self.follow(pod)

    def crash_own(self, pod):
        """Let the sidecar restart alone. Its next request is the one of a pod that waits."""
        statuses = pod["status"].get("initContainerStatuses", ())
        if self.is_running(pod) and not pod.get("exiting") and not is_deleted(pod):
            self.restart_container(pod, [each for each in statuses if each["name"] == SIDECAR], 1)
            pod["restarted alone"] = True
            self.during(0.1, self.ask, pod)
