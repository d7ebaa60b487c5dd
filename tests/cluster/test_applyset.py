"""`kubectl apply --prune --applyset` removes what a folder no longer holds, as docs/git.md says."""

import json

import pytest

pytestmark = pytest.mark.cluster

KINDS = "configmap,serviceaccount,role,rolebinding,service,statefulset,job"

JOB = """apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {{name: {name}, nameSuffix: hash}}
spec:
  framework: tensorflow
  image: example/{name}:{tag}
  runPolicy: {{suspend: true, cleanPodPolicy: Running}}
  roles: {{chief: {{}}, ps: {{}}}}
"""
"""Its name changes with its image, and its objects are of every kind but Deployment."""


@pytest.fixture
def apply(namespace, tmp_path):
    """Render jobs into a folder, and apply it as a whole; return what kubectl did and said."""
    namespace.environment = namespace.environment | {"KUBECTL_APPLYSET": "true"}

    def apply(**tags):
        texts = [JOB.format(name=name, tag=tag) for name, tag in tags.items()]
        (tmp_path / "jobs.yaml").write_text("---\n".join(texts))
        namespace.mlgen("render", f"{tmp_path}/jobs.yaml", "-o", f"{tmp_path}/out/")
        return applied(namespace, "-f", f"{tmp_path}/out")

    return apply


def applied(namespace, *words, given=None):
    command = ["apply", "--prune", "--applyset=configmaps/training", *words]
    return namespace.both(*command, given=given)


def uids(namespace):
    """What there is beside what every namespace has."""
    items = namespace.get(KINDS)["items"]
    found = {(o["kind"], o["metadata"]["name"]): o["metadata"]["uid"] for o in items}
    return {key: uid for key, uid in found.items() if key[1] not in ("default", "kube-root-ca.crt")}


def test_what_the_folder_no_longer_holds_is_removed_and_nothing_else(apply, namespace):
    namespace.kubectl("create", "configmap", "mine")
    apply(bert="1", mnist="1")
    before = uids(namespace)

    apply(bert="1", mnist="2")

    after = uids(namespace)
    gone, new = before.keys() - after.keys(), after.keys() - before.keys()
    assert {name.split("-")[0] for _, name in gone | new} == {"mnist"}
    assert sorted(kind for kind, _ in gone) == sorted(kind for kind, _ in new)
    assert {kind.lower() for kind, _ in gone} == set(KINDS.split(","))
    assert {("ConfigMap", "mine"), ("ConfigMap", "training")} <= after.keys()
    assert all(after[key] == before[key] for key in before.keys() & after.keys())


def test_the_same_folder_again_changes_nothing(apply, namespace):
    apply(bert="1")
    before = uids(namespace)

    done, _ = apply(bert="1")

    assert "pruned" not in done
    assert before == uids(namespace)


def test_labels_and_parents_are_kubectl_s_own(apply, namespace):
    """Which is why mlgen writes neither."""
    label, tooling = "applyset.kubernetes.io/part-of", "applyset.kubernetes.io/tooling"
    namespace.kubectl("create", "configmap", "training")
    namespace.kubectl("annotate", "configmap", "training", f"{tooling}=mlgen/v1")
    _, said = apply(bert="1")
    assert 'is managed by tooling "mlgen" instead of "kubectl"' in said

    namespace.kubectl("delete", "configmap", "training")
    member = {"apiVersion": "v1", "kind": "ConfigMap"}
    member["metadata"] = {"name": "data", "labels": {label: "any"}}
    _, said = applied(namespace, "-f", "-", given=json.dumps(member))
    assert f'ApplySet label "{label}" already set in input data' in said
