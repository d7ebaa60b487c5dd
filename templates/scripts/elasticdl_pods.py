"""Adapts the pods that an ElasticDL master creates, as its --cluster_spec.

Parameter servers check every 30 seconds for the pod elasticdl-<job>-master, and stop when it has
ended or does not exist (elasticdl/python/ps/parameter_server.py, elasticdl/go/cmd/elasticdl_ps).
The pod of a Job has another name. So this program creates a second pod with that name, which is
never scheduled and ends when the master ends. The master's pod owns it, and it owns the pods that
the master creates, so all of them are deleted with the job.

Runs in the user's image: Python 3.5 and later, with the package `kubernetes`.
"""

import atexit
import os
import re
import time

from kubernetes import client

NAMESPACE, POD = os.environ["MY_POD_NAMESPACE"], os.environ["MY_POD_NAME"]
CONFLICT, NOT_FOUND = 409, 404

SMALL = {"cpu": "1m", "memory": "1Mi"}  # a quota may require amounts
TOOLS = re.compile(
    r"app|elasticdl-.*|job-name|controller-uid|[^/]*"
    r"(mlgen\.dev|kubernetes\.io|k8s\.io|istio\.io|kai\.scheduler|volcano\.sh|argoproj\.io)/.*"
)  # labels by which a tool finds the master's pod
CONFINED = {  # without a user, because the container never runs
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


class Cluster:
    """The hooks that ElasticDL calls for each pod and Service that it creates."""

    def __init__(self) -> None:
        self.api = client.CoreV1Api()
        master = self.api.read_namespaced_pod(POD, NAMESPACE)
        self.account = master.spec.service_account_name
        labels = {key: master.metadata.labels[key] for key in ("app", "elasticdl-job-name")}
        of_master = master.metadata.labels.items()
        self.users = {key: value for key, value in of_master if not TOOLS.fullmatch(key)}
        self.name = "elasticdl-{}-master".format(labels["elasticdl-job-name"])
        owner = {"apiVersion": "v1", "kind": "Pod", "name": POD, "uid": master.metadata.uid}
        container = {
            "name": "main",
            "image": master.spec.containers[0].image,
            "resources": {"requests": SMALL, "limits": SMALL},
            "securityContext": CONFINED,
        }
        self.pod = {
            "metadata": {
                "name": self.name,
                "labels": dict(self.users, **labels),
                "ownerReferences": [owner],
            },
            "spec": {
                "schedulingGates": [{"name": "mlgen.dev/stands-for-the-master"}],
                "automountServiceAccountToken": False,
                "restartPolicy": "Never",
                "containers": [container],
            },
        }

    def start(self) -> None:
        """Create the pod, after deleting the pod of an earlier master and its dependents."""
        while not self._created():
            print("waiting for the pods of an earlier master to terminate", flush=True)
            time.sleep(2)
        atexit.register(self._end)

    def _created(self) -> bool:
        try:
            self.api.create_namespaced_pod(NAMESPACE, self.pod)
        except client.rest.ApiException as error:
            if error.status != CONFLICT:
                raise
            options = client.V1DeleteOptions(propagation_policy="Foreground")
            try:
                self.api.delete_namespaced_pod(self.name, NAMESPACE, body=options)
            except client.rest.ApiException as gone:
                if gone.status != NOT_FOUND:
                    raise
            return False
        return True

    def _end(self) -> None:
        body = {"status": {"phase": "Succeeded"}}
        self.api.patch_namespaced_pod_status(self.name, NAMESPACE, body)

    def with_pod(self, pod: client.V1Pod) -> client.V1Pod:
        """Set the user's labels, and the account with which a parameter server finds the master."""
        pod.metadata.labels = dict(self.users, **(pod.metadata.labels or {}))
        if re.search(r"-ps-\d+$", pod.metadata.name):
            pod.spec.service_account_name = self.account
        return pod

    def with_service(self, service: client.V1Service) -> client.V1Service:
        """Return the Service unchanged."""
        return service


cluster = Cluster()
cluster.start()
