"""The deaths of jobs, and the expected end of each."""

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from launchers.nodes import SecondNode

SIDECAR = (
    "until [ -s /data/log-1 ]; do sleep 0.2; done; {crash} trap 'exit 143' TERM; sleep 3600 & wait"
)
CRASH = "[ -e /data/died ] || { touch /data/died; exit 1; };"
SPREAD = {
    "scheduling": {"spread": {"key": "kubernetes.io/hostname", "mode": "required"}},
    "tolerations": [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
        for key in ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")
    ],
}
"""Fields for a worker on each of two nodes. A pod is deleted soon after its node is lost."""


@dataclass(frozen=True, eq=False)
class Death:
    """A way in which a job dies.

    Attributes:
        name: the name in the table.
        how: how the program kills itself; "held" if it waits to be killed.
        strike: function that kills the job when it waits, or prepares it at the start.
        spec, worker, decider: fields of the job file: for the whole job, for its workers, and for
            the role of the deciding Job, which is often the workers' role.
        end, restarts, disruptions: the expected values in the record at the end.
        attempts: how often the ranks start to train.
        in_place: True if a StatefulSet replaces the pod, maybe before the failure is noticed.
        nodes: the number of nodes that it needs.
    """

    name: str
    how: str = ""
    strike: Callable[[Any], None] | None = None
    spec: dict[str, Any] = field(default_factory=dict)
    worker: dict[str, Any] = field(default_factory=dict)
    decider: dict[str, Any] = field(default_factory=dict)
    end: str = "Succeeded"
    restarts: int = 0
    disruptions: int = 0
    attempts: int = 2
    in_place: bool = False
    nodes: int = 1


def delete(play):
    play.mark()
    play.namespace.kubectl("delete", "pod", play.worker(), "--wait=false")


def evict(play):
    """Evict the pod, as `kubectl drain` does."""
    name, namespace = play.worker(), play.namespace
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    path = f"/api/v1/namespaces/{namespace.name}/pods/{name}/eviction"
    play.mark()
    namespace.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))


def reject(play):
    """Give the node the second device when the kubelet has rejected a pod that needs it.

    The pods have a `nodeName`, so the scheduler does not check the node's resources.
    """
    namespace = play.namespace
    device, node = f"mlgen.test/{secrets.token_hex(4)}", play.first_node()
    play.spec["roles"]["worker"] |= {
        "resources": {device: 1},
        "template": {"spec": {"nodeName": node}},
    }

    def has(number):
        amount = {device: number}
        patch = json.dumps({"status": {"capacity": amount, "allocatable": amount}})
        words = ("patch", "node", node, "--subresource=status", "--type=merge", "-p", patch)
        namespace.kubectl(*words)

    has(1)
    play.apply()
    play.until("a pod is rejected", lambda: play.has_event(f"OutOf{device}"))
    play.mark()
    has(4)
    play.later(lambda: has(None))


def cannot_mount(play):
    """Let the workers mount a ConfigMap that does not exist; return its name."""
    name = f"{play.job}-missing"
    play.spec["roles"]["worker"]["volumes"] = {"late": {"mountPath": "/late", "configMap": name}}
    play.apply()
    return name


def mount_late(play):
    """Create the ConfigMap after the kubelet has reported it missing."""
    name = cannot_mount(play)
    play.until("the kubelet cannot mount", lambda: play.has_event("FailedMount"))
    play.mark()
    play.namespace.kubectl("create", "configmap", name)


def sidecar(crash=""):
    container = {
        "name": "proxy",
        "image": "busybox:1.36",
        "restartPolicy": "Always",
        "command": ["sh", "-c", SIDECAR.format(crash=crash)],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    return {"template": {"spec": {"initContainers": [container]}}}


def drain(play):
    play.lose(SecondNode.drain)


def cut_off(play):
    play.lose(SecondNode.cut_off)


def destroy(play):
    play.lose(SecondNode.destroy)


DEATHS = (
    Death("exception", "exception", restarts=1),
    Death("SIGKILL", "SIGKILL", restarts=1),
    Death("SIGABRT", "SIGABRT", restarts=1),
    Death("out of memory", "memory", restarts=1),
    Death(
        "exit 42, ExitCode",
        "exit 42",
        decider={"restartPolicy": "ExitCode"},
        end="Failed",
        attempts=1,
    ),
    Death("pod deleted", "held", delete, disruptions=1),
    Death("drained", "held", evict, disruptions=1),
    Death("kubelet rejects", "", reject, restarts=1, attempts=1, in_place=True),
    Death("sidecar ends with 143", worker=sidecar(), attempts=1),
    Death("sidecar crashes", worker=sidecar(CRASH), attempts=1),
    Death(
        "mount fails",
        "",
        cannot_mount,
        spec={"runPolicy": {"giveUpAfter": {"imagePullSeconds": 20}}},
        end="Failed",
        attempts=0,
    ),
    Death("mount fails at first", "", mount_late, attempts=1),
    Death("node drained", "held", drain, SPREAD, disruptions=1, nodes=2),
    Death("node cut off", "held", cut_off, SPREAD, disruptions=1, nodes=2),
    Death("node dead", "held", destroy, SPREAD, disruptions=1, nodes=2),
)
BY_NAME = {death.name: death for death in DEATHS}
