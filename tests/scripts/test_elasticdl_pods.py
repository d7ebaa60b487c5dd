"""The pods of an ElasticDL master obey the rules of the cluster."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
from support import ROOT

SCRIPT = ROOT / "templates/scripts/elasticdl_pods.py"

LABELS = {
    "app": "elasticdl",
    "elasticdl-job-name": "ctr",
    "elasticdl-replica-type": "master",
    "mlgen.dev/job": "ctr",
    "batch.kubernetes.io/job-name": "ctr-master",
    "job-name": "ctr-master",
    "sidecar.istio.io/inject": "false",
    "kueue.x-k8s.io/queue-name": "research",
    "team": "vision",
    "example.com/cost-center": "42",
}
USERS = {"team": "vision", "example.com/cost-center": "42"}


@pytest.fixture
def module(monkeypatch):
    """The program in a master's pod with LABELS, and the pods that it creates."""
    created = []
    spec = SimpleNamespace(
        service_account_name="ctr", containers=[SimpleNamespace(image="example/ctr:1")]
    )
    master = SimpleNamespace(metadata=SimpleNamespace(labels=LABELS, uid="u"), spec=spec)

    class Api:
        def read_namespaced_pod(self, *_):
            return master

        def create_namespaced_pod(self, _, pod):
            created.append(pod)

    rest = SimpleNamespace(ApiException=type("ApiException", (Exception,), {"status": 0}))

    kubernetes = ModuleType("kubernetes")
    kubernetes.client = SimpleNamespace(
        CoreV1Api=Api,
        V1Pod=object,
        V1Service=object,
        rest=rest,
    )
    monkeypatch.setitem(sys.modules, "kubernetes", kubernetes)
    monkeypatch.setenv("MY_POD_NAMESPACE", "vision")
    monkeypatch.setenv("MY_POD_NAME", "ctr-master-0")
    monkeypatch.setattr("atexit.register", lambda _: None)
    program = {"__name__": "elasticdl_pods"}
    exec(compile(SCRIPT.read_text(), str(SCRIPT), "exec"), program)
    return program, created


def test_the_stand_in_of_the_master_has_the_users_labels_and_no_fixed_user(module):
    _, (pod,) = module

    assert {"app": "elasticdl", "elasticdl-job-name": "ctr", **USERS} == pod["metadata"]["labels"]
    (container,) = pod["spec"]["containers"]
    assert container["securityContext"]["runAsNonRoot"]
    assert "runAsUser" not in container["securityContext"]


def test_pods_that_the_master_creates_have_the_users_labels(module):
    program, _ = module
    own = SimpleNamespace(name="elasticdl-ctr-worker-0", labels={"app": "elasticdl", "team": "own"})
    pod = SimpleNamespace(metadata=own, spec=SimpleNamespace())

    labels = program["cluster"].with_pod(pod).metadata.labels

    assert {**USERS, "app": "elasticdl", "team": "own"} == labels
