"""`kubectl apply --prune --applyset` prunes objects removed from a folder, as in the Git docs."""

import json

import pytest

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
"""A job whose name changes with its image. It renders every kind except Deployment."""


@pytest.fixture
def apply(namespace, tmp_path):
    """Render jobs into a folder and apply the whole folder; return kubectl's stdout and stderr."""
    namespace.environment = namespace.environment | {"KUBECTL_APPLYSET": "true"}

    def apply(**tags):
        texts = [JOB.format(name=name, tag=tag) for name, tag in tags.items()]
        (tmp_path / "jobs.yaml").write_text("---\n".join(texts))
        namespace.mlgen("render", f"{tmp_path}/jobs.yaml", "-o", f"{tmp_path}/out/")
        return applied(namespace, "-f", f"{tmp_path}/out")

    return apply


def applied(namespace, *words, stdin=None):
    command = ["apply", "--prune", "--applyset=configmaps/training", *words]
    return namespace.stdout_and_stderr(*command, stdin=stdin)


def uids(namespace):
    """UIDs by kind and name, without the objects that every namespace has."""
    items = namespace.get(KINDS)["items"]
    by_name = {(o["kind"], o["metadata"]["name"]): o["metadata"]["uid"] for o in items}
    return {
        key: uid for key, uid in by_name.items() if key[1] not in ("default", "kube-root-ca.crt")
    }


def test_only_objects_no_longer_in_the_folder_are_pruned(apply, namespace):
    namespace.kubectl("create", "configmap", "mine")
    apply(bert="1", mnist="1")
    before = uids(namespace)

    apply(bert="1", mnist="2")

    after = uids(namespace)
    pruned, created = before.keys() - after.keys(), after.keys() - before.keys()
    assert {name.split("-")[0] for _, name in pruned | created} == {"mnist"}
    assert sorted(kind for kind, _ in pruned) == sorted(kind for kind, _ in created)
    assert {kind.lower() for kind, _ in pruned} == set(KINDS.split(","))
    assert {("ConfigMap", "mine"), ("ConfigMap", "training")} <= after.keys()
    assert all(after[key] == before[key] for key in before.keys() & after.keys())


def test_reapplying_the_same_folder_changes_nothing(apply, namespace):
    apply(bert="1")
    before = uids(namespace)

    output, _ = apply(bert="1")

    assert "pruned" not in output
    assert before == uids(namespace)


def test_kubectl_rejects_applyset_metadata_of_other_tools(apply, namespace):
    """So mlgen does not write the label or the parent's annotation."""
    label, tooling = "applyset.kubernetes.io/part-of", "applyset.kubernetes.io/tooling"
    namespace.kubectl("create", "configmap", "training")
    namespace.kubectl("annotate", "configmap", "training", f"{tooling}=mlgen/v1")
    _, errors = apply(bert="1")
    assert 'is managed by tooling "mlgen" instead of "kubectl"' in errors

    namespace.kubectl("delete", "configmap", "training")
    member = {"apiVersion": "v1", "kind": "ConfigMap"}
    member["metadata"] = {"name": "data", "labels": {label: "any"}}
    _, errors = applied(namespace, "-f", "-", stdin=json.dumps(member))
    assert f'ApplySet label "{label}" already set in input data' in errors
