"""The objects that a pod refers to: each field with such a name, once."""

import pytest

from mlgen.kubernetes.references import Reference, of_pod, scheduler


def found(spec, **annotations):
    metadata = {"annotations": {key.replace("_", "/"): text for key, text in annotations.items()}}
    return list(of_pod({"metadata": metadata, "spec": {"containers": []} | spec}))


def container(**fields):
    return {"containers": [{"name": "main", **fields}]}


def env(field, **ref):
    return container(env=[{"name": "A", "value": "x"}, {"name": "B", "valueFrom": {field: ref}}])


def volume(**source):
    return {"volumes": [{"name": "v", **source}]}


ITEMS = [{"key": "a", "path": "b"}]
FILES = {"use": "files", "volume": "v"}


def test_an_object_that_a_pod_names():
    rows = [
        ({"imagePullSecrets": [{"name": "a"}]}, Reference("Secret", "a", use="image pull")),
        (env("secretKeyRef", name="a", key="k"), Reference("Secret", "a", keys=("k",))),
        (env("configMapKeyRef", name="a", key="k"), Reference("ConfigMap", "a", keys=("k",))),
        (
            {
                "containers": [],
                "initContainers": env("secretKeyRef", name="a", key="k")["containers"],
            },
            Reference("Secret", "a", keys=("k",)),
        ),
        (
            container(envFrom=[{"secretRef": {"name": "a"}}]),
            Reference("Secret", "a", use="variables"),
        ),
        (
            container(envFrom=[{"configMapRef": {"name": "a"}}]),
            Reference("ConfigMap", "a", use="variables"),
        ),
        (volume(secret={"secretName": "a"}), Reference("Secret", "a", **FILES)),
        (
            volume(secret={"secretName": "a", "items": ITEMS}),
            Reference("Secret", "a", keys=("a",), volume="v"),
        ),
        (volume(configMap={"name": "a"}), Reference("ConfigMap", "a", **FILES)),
        (
            volume(projected={"sources": [{"secret": {"name": "a"}}]}),
            Reference("Secret", "a", **FILES),
        ),
        (
            volume(projected={"sources": [{"configMap": {"name": "a"}}, {"downwardAPI": {}}]}),
            Reference("ConfigMap", "a", **FILES),
        ),
        (
            volume(csi={"driver": "d", "nodePublishSecretRef": {"name": "a"}}),
            Reference("Secret", "a", **FILES),
        ),
        (
            volume(persistentVolumeClaim={"claimName": "a"}),
            Reference("PersistentVolumeClaim", "a", **FILES),
        ),
        (
            volume(ephemeral={"volumeClaimTemplate": {"spec": {"storageClassName": "a"}}}),
            Reference("StorageClass", "a", **FILES),
        ),
        ({"serviceAccountName": "a"}, Reference("ServiceAccount", "a")),
        ({"priorityClassName": "a"}, Reference("PriorityClass", "a")),
        ({"runtimeClassName": "a"}, Reference("RuntimeClass", "a")),
        ({"resourceClaims": [{"resourceClaimName": "a"}]}, Reference("ResourceClaim", "a")),
        (
            {"resourceClaims": [{"resourceClaimTemplateName": "a"}]},
            Reference("ResourceClaimTemplate", "a"),
        ),
    ]

    assert [[reference] for _, reference in rows] == [found(spec) for spec, _ in rows]


def test_optional_and_built_in_objects_are_not_named():
    rows = [
        env("secretKeyRef", name="a", key="k", optional=True),
        container(envFrom=[{"configMapRef": {"name": "a", "optional": True}}]),
        container(envFrom=None, env=[{"name": "A", "valueFrom": {"fieldRef": {}}}]),
        volume(secret={"secretName": "a", "optional": True}),
        volume(projected={"sources": [{"secret": {"name": "a", "optional": True}}]}),
        volume(configMap={"name": "kube-root-ca.crt"}),
        volume(emptyDir={}),
        {"serviceAccountName": "default", "priorityClassName": "system-node-critical"},
        {"imagePullSecrets": None, "volumes": None, "resourceClaims": None},
    ]

    assert [[] for spec in rows] == [found(spec) for spec in rows]


@pytest.mark.parametrize(
    ("annotation", "networks"),
    [
        ("ib", [("ib", None)]),
        ("ib, fabric/data@eth1", [("ib", None), ("data", "fabric")]),
        (
            '[{"name": "ib"}, {"name": "data", "namespace": "fabric"}, 1, {"name": 2}]',
            [("ib", None), ("data", "fabric")],
        ),
        ("[", []),
        ("", []),
    ],
)
def test_the_networks_of_multus(annotation, networks):
    references = found({}, **{"k8s.v1.cni.cncf.io_networks": annotation})

    assert networks == [(reference.name, reference.namespace) for reference in references]
    assert {"NetworkAttachmentDefinition"} >= {reference.kind for reference in references}


@pytest.mark.parametrize(
    ("fields", "name"),
    [({}, None), ({"schedulerName": "default-scheduler"}, None), ({"schedulerName": "a"}, "a")],
)
def test_a_scheduler_other_than_that_of_kubernetes(fields, name):
    assert name == scheduler({"spec": fields})
