"""Claims that a job creates, and that no pod mounts."""

import pytest

from mlgen.checks.pods import Objects
from mlgen.checks.references import unused_claims


def workload(*names):
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    pod = {"containers": [{"name": "main"}], "volumes": [*volumes, {"name": "tmp", "emptyDir": {}}]}
    metadata = {"name": "mnist-worker", "labels": {"mlgen.dev/role": "worker"}}
    return {"kind": "Job", "metadata": metadata, "spec": {"template": {"spec": pod}}}


@pytest.mark.parametrize(
    ("mounted", "hint"),
    [
        (["models"], None),
        (["data", "model"], 'did you mean "model"?'),
        (["data"], "mount it with pvc: models in a volume, or remove it"),
    ],
)
def test_a_claim_that_no_pod_mounts_is_a_warning(mounted, hint):
    created = [
        {"kind": "PersistentVolumeClaim", "metadata": {"name": name}}
        for name in ("models", *(name for name in mounted if name == "data"))
    ]

    warnings = list(unused_claims(Objects("mnist", [*created, workload(*mounted)])))

    assert [(w.path, w.hint, w.code, w.warning) for w in warnings] == (
        [(("spec", "claims", "models"), hint, "no-effect", True)] if hint else []
    )
