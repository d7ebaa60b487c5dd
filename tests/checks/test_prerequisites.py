"""The objects that a job needs but its manifests do not contain: users and creation commands."""

import pytest

from mlgen import Options, validate
from mlgen.kubernetes.versions import SUPPORTED


def job(spec="", namespace="", role=""):
    """A job with fields of `spec`, and one of its role."""
    metadata = f"{{name: mnist{f', namespace: {namespace}' if namespace else ''}}}"
    return (
        f"apiVersion: mlgen.dev/v1alpha1\nkind: TrainingJob\nmetadata: {metadata}\n"
        "spec:\n  framework: jax\n  image: example/mnist:1\n"
        f"  roles: {{worker: {{{role}}}}}\n" + "".join(f"  {line}\n" for line in spec.splitlines())
    )


def listed(text, **options):
    (rendered,) = validate(text, Options(**options)).jobs
    return [(str(item), item.used_by, item.command) for item in rendered.prerequisites]


def commands(text, **options):
    return [command for _, _, command in listed(text, **options)]


SECRET = "env: {TOKEN: {valueFrom: {secretKeyRef: {name: hub, key: token}}}}"


def test_a_job_that_names_nothing_needs_nothing():
    assert [] == listed(job())


@pytest.mark.parametrize(
    ("spec", "command"),
    [
        (SECRET, "secret generic hub --from-literal=token=…"),
        (
            SECRET + "\nvolumes: {hub: {mountPath: /hub, secret: hub}}",
            "secret generic hub --from-literal=token=… --from-file=…",
        ),
        (
            (
                "template: {spec: {volumes: [{name: a, secret: {secretName: hub,"
                " items: [{key: netrc, path: .netrc}]}}]}}"
            ),
            "secret generic hub --from-file=netrc=…",
        ),
        (
            SECRET + "\ntemplate: {spec: {containers: [{name: main, envFrom: [{secretRef:"
            " {name: hub}}]}]}}",
            "secret generic hub --from-env-file=…",
        ),
        (
            "template: {spec: {imagePullSecrets: [{name: hub}]}}",
            "secret docker-registry hub --docker-server=… --docker-username=… --docker-password=…",
        ),
        (
            (
                "volumes: {code: {mountPath: /c, git: {repository: 'https://git.example/c.git',"
                " secret: hub}}}"
            ),
            "secret generic hub --from-file=ssh-privatekey=… --from-file=known_hosts=…",
        ),
        ("volumes: {a: {mountPath: /a, configMap: b}}", "configmap b --from-file=…"),
        ("template: {spec: {serviceAccountName: a}}", "serviceaccount a"),
        ("template: {spec: {priorityClassName: a}}", "priorityclass a --value=…"),
    ],
)
def test_the_command_that_creates_it(spec, command):
    assert [f"kubectl create {command}"] == commands(job(spec))


def test_the_keys_of_mpi_come_from_mlgen():
    text = job("options: {transport: ssh}", role="replicas: 2").replace("jax", "mpi")
    text = text.replace("roles: {", "roles: {launcher: {command: [mpirun, ./cfd]}, ")

    ((title, roles, command),) = listed(text, namespace="cfd")

    assert ("Secret mnist-ssh", {"launcher", "worker"}) == (title, set(roles))
    assert command == "mlgen ssh-secret -n cfd mnist-ssh | kubectl apply -f -"


def test_commands_name_the_namespace_of_the_job_but_not_for_objects_of_the_cluster():
    spec = "template: {spec: {serviceAccountName: a, priorityClassName: b}}"

    assert [
        "kubectl create serviceaccount a -n vision",
        "kubectl create priorityclass b --value=…",
    ] == commands(job(spec), namespace="vision")


@pytest.mark.parametrize(
    ("spec", "titles"),
    [
        ("volumes: {a: {mountPath: /a, pvc: b}}", ["PersistentVolumeClaim b"]),
        ("template: {spec: {runtimeClassName: a}}", ["RuntimeClass a"]),
        ("scheduling: {schedulerName: a}", ["scheduler a"]),
        ("scheduling: {gang: kueue, queue: a}", ["LocalQueue a"]),
        (
            "scheduling: {gang: volcano, queue: a}",
            [
                "scheduler volcano",
                "Queue a",
                "CustomResourceDefinition podgroups.scheduling.volcano.sh",
            ],
        ),
        (
            "scheduling: {gang: volcano, queue: default, priorityClassName: system-node-critical}",
            ["scheduler volcano", "CustomResourceDefinition podgroups.scheduling.volcano.sh"],
        ),
        (
            "scheduling: {gang: coscheduling}",
            [
                "scheduler scheduler-plugins-scheduler",
                "CustomResourceDefinition podgroups.scheduling.x-k8s.io",
            ],
        ),
        ("scheduling: {gang: kubernetes}", ["feature gate GenericWorkload"]),
        (
            "template: {metadata: {annotations: {k8s.v1.cni.cncf.io/networks: a}}}",
            ["NetworkAttachmentDefinition a"],
        ),
        (
            "template: {metadata: {labels: {kueue.x-k8s.io/priority-class: high}}}",
            ["WorkloadPriorityClass high"],
        ),
    ],
)
def test_what_no_command_creates_is_listed_too(spec, titles):
    version = SUPPORTED[-1]

    assert titles == [title for title, _, _ in listed(job(spec), kube_version=version)]
    assert {""} == set(commands(job(spec), kube_version=version))


def test_a_pod_group_is_named_as_the_user_of_its_queue():
    text = job("scheduling: {gang: volcano, queue: a, priorityClassName: b}")

    users = {title: used_by for title, used_by, _ in listed(text)}

    assert ("PodGroup mnist",) == users["Queue a"]
    assert ("PodGroup mnist", "worker") == users["PriorityClass b"]


@pytest.mark.parametrize(
    "other",
    [
        "apiVersion: v1\nkind: Secret\nmetadata: {name: hub}",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: hub, namespace: vision}",
        (
            "apiVersion: v1\nkind: List\nitems:\n- 1\n- {kind: a, apiVersion: 1}\n"
            "- {apiVersion: v1, kind: Secret, metadata: {name: hub}}"
        ),
        "apiVersion: bitnami.com/v1alpha1\nkind: SealedSecret\nmetadata: {name: hub}",
        (
            "apiVersion: external-secrets.io/v1\nkind: ExternalSecret\nmetadata: {name: x}\n"
            "spec: {target: {name: hub}}"
        ),
        "apiVersion: external-secrets.io/v1\nkind: ExternalSecret\nmetadata: {name: hub}\nspec: []",
    ],
)
@pytest.mark.parametrize("namespace", ["", "vision"])
def test_what_the_manifests_bring_is_not_listed(other, namespace):
    assert [] == listed(f"{job(SECRET, namespace)}---\n{other}\n")


def test_an_object_in_another_namespace_does_not_help():
    other = "apiVersion: v1\nkind: Secret\nmetadata: {name: hub, namespace: other}\n"

    assert ["Secret hub"] == [t for t, _, _ in listed(f"{job(SECRET, 'vision')}---\n{other}")]


def test_each_role_that_uses_it_is_named_once():
    text = job(SECRET + "\nnetwork: {host: true}", role="replicas: 3, port: 1234")

    assert [("Secret hub", ("worker",))] == [item[:2] for item in listed(text)]


def test_a_claim_that_is_created_needs_its_storage_class_but_is_no_prerequisite():
    claim = "{accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}%s}"
    volume = "volumes: {data: {mountPath: /data, pvc: coco}}\n"

    fast = job(volume + "claims: {coco: " + claim % ", storageClassName: fast" + "}")
    assert listed(fast) == [("StorageClass fast", ("PersistentVolumeClaim coco",), "")]
    assert listed(job(volume + "claims: {coco: " + claim % "" + "}")) == []
