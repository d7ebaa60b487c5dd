"""Names, sizes and identities of the objects of a job."""

from base64 import b64encode

import pytest
from click.testing import CliRunner

from mlgen.checks import collisions, located, sizes
from mlgen.checks.pods import Objects
from mlgen.cli import main
from mlgen.kubernetes.objects import keys

KIB = 1 << 10
BESIDE = 65_348  # with this many bytes of data, the annotation has 256 KiB
NO_JOB = "so that they share a Job"
TOO_LONG = "the name is too long: pod of the Job"
NAME_HINT = (
    "use lowercase letters, digits and dashes, "
    "starting with a letter or digit and not ending with a dash"
)


def item(kind, name, version="v1", namespace=None, **content):
    metadata = {"name": name, "namespace": namespace, "labels": {}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **content}


def job(name, completions=1, **labels):
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}
    spec = {"template": {"metadata": {"labels": {}}, "spec": pod}}
    indexed = {"completionMode": "Indexed", "completions": completions}
    manifest = item("Job", name, "batch/v1", spec={**spec, **indexed})
    manifest["metadata"]["labels"] = {"mlgen.dev/decides": "true", **labels}
    return manifest


@pytest.mark.parametrize(
    ("objects", "earlier", "message"),
    [
        ([item("Service", "a"), item("ConfigMap", "a")], [], None),
        ([item("Service", "a")], [item("Service", "a", namespace="x")], None),
        ([item("Service", "a")], [item("Service", "a")], "Service a would be rendered twice"),
        ([item("Service", "a")] * 2, [], "Service a would be rendered twice"),
        (
            [item("Service", "a"), item("Role", "b")] * 3,
            [],
            "Service a would be rendered twice (and 1 more)",
        ),
    ],
)
def test_objects_that_are_rendered_twice_are_reported_once(objects, earlier, message):
    problems = collisions(keys(objects), set(keys(earlier)))

    assert [message] * bool(message) == [problem.message for problem in problems]


@pytest.mark.parametrize(
    ("kind", "characters", "codes"),
    [
        ("ConfigMap", 200 * KIB, []),
        ("ConfigMap", 256 * KIB, ["large-object"]),
        ("ConfigMap", 1024 * KIB, ["large-object"]),
        ("ConfigMap", 1024 * KIB + 1, ["too-large"]),
        ("Job", 1536 * KIB - 100, ["large-object"]),
        ("Job", 1536 * KIB, ["too-large"]),
    ],
)
def test_objects_over_the_limits_of_kubernetes_and_of_kubectl_are_reported(kind, characters, codes):
    problems = list(sizes(item(kind, "a", data={"a": "x" * characters}), "use fewer replicas"))

    assert codes == [problem.code for problem in problems]
    assert [code == "large-object" for code in codes] == [problem.warning for problem in problems]


@pytest.mark.parametrize(
    ("text", "binary", "codes"),
    [
        (0, 1024 * KIB, ["large-object"]),
        (0, 1024 * KIB + 1, ["too-large"]),
        (24 * KIB, 1000 * KIB, ["large-object"]),
        (24 * KIB + 1, 1000 * KIB, ["too-large"]),
        (24 * KIB, 1000 * KIB + 1, ["too-large"]),
    ],
)
def test_the_limit_of_a_config_map_counts_decoded_binary_data(text, binary, codes):
    """Tested with Kubernetes 1.34.4: `kubectl create` rejects one byte more."""
    content = {"a": b64encode(bytes(binary)).decode()}
    manifest = item("ConfigMap", "a", data={"b": "x" * text}, binaryData=content)

    assert codes == [problem.code for problem in sizes(manifest, "")]


@pytest.mark.parametrize(("more", "codes"), [(0, []), (1, ["large-object"])])
def test_the_annotation_of_kubectl_has_binary_data_in_base64(more, codes):
    """Tested with Kubernetes 1.34.4: `kubectl apply` rejects one byte more."""
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}
    manifest |= {"binaryData": {"a": "A" * 196_608}, "data": {"b": "x" * (BESIDE + more)}}

    assert codes == [problem.code for problem in sizes(manifest, "")]


@pytest.mark.parametrize(("kib", "codes"), [(1023, ["large-object"]), (1024, ["too-large"])])
def test_a_workflow_has_the_limit_of_argo(kib, codes):
    workflow = item("Workflow", "a", "argoproj.io/v1alpha1", spec={"a": "x" * (kib * KIB)})

    assert codes == [problem.code for problem in sizes(workflow, "")]


def test_a_size_is_rounded_up_so_that_it_differs_from_the_limit():
    large, larger = (item("ConfigMap", "a", data={"a": "x" * size}) for size in (262_144, 1 << 20))
    larger["data"]["a"] += "x"
    (warning,), (error,) = sizes(large, ""), sizes(larger, "make it smaller")

    assert "ConfigMap a has 257 KiB, too large" in warning.message
    assert "whose limit is 256 KiB" in warning.message
    assert "ConfigMap a has 1025 KiB, the limit is 1024 KiB" == error.message


@pytest.mark.parametrize(
    ("labels", "pod", "way"),
    [
        ({}, {}, "use fewer replicas"),
        (
            {"mlgen.dev/replica-index": "0", "mlgen.dev/role": "worker"},
            {},
            f"use fewer replicas, or give every worker the same fields, {NO_JOB}",
        ),
        (
            {"mlgen.dev/replica-index": "0"},
            {"hostNetwork": True},
            f"use fewer replicas, or remove network.host, {NO_JOB}",
        ),
    ],
)
def test_the_way_around_a_limit_depends_on_who_has_a_job_of_its_own(labels, pod, way):
    workload = job("a", **labels)
    workload["spec"]["template"]["spec"] |= pod
    large = item("ConfigMap", "b", data={"a": "x" * (1 << 21)})

    problems = [each.problem for each in located(Objects("a", [workload, large]), (1, 34))]

    assert [way] == [problem.hint for problem in problems if problem.code == "too-large"]


@pytest.mark.parametrize(
    ("metadata", "characters"),
    [
        ({"namespace": "a", "annotations": {"x": "yé"}}, 261_950),
        ({"namespace": "a"}, 261_963),
        ({}, 261_957),
    ],
)
def test_the_size_for_kubectl_is_that_of_its_annotation(metadata, characters):
    """Tested with Kubernetes 1.34.4: `kubectl apply` rejects one byte more."""
    for more, codes in ((0, []), (1, ["large-object"])):
        text = "<a>&\n" + "x" * (characters + more)
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": text}}
        manifest["metadata"] = {"name": "b"} | metadata

        assert codes == [problem.code for problem in sizes(manifest, "")]


@pytest.mark.parametrize(
    ("name", "completions", "message", "hint"),
    [
        ("a" * 61, 10, None, None),
        (
            "a" * 61,
            11,
            f'{TOO_LONG} "{"a" * 61}-10" has 64 characters, the limit is 63',
            "shorten the name by 1 character",
        ),
        (
            "a" * 63,
            1,
            f'{TOO_LONG} "{"a" * 63}-0" has 65 characters, the limit is 63',
            "shorten the name by 2 characters",
        ),
        (
            "-a",
            1,
            '"-a" is not a valid name for a Job',
            NAME_HINT,
        ),
    ],
)
def test_names_of_pods_have_at_most_63_characters(name, completions, message, hint):
    problems = [each.problem for each in located(Objects("a", [job(name, completions)]), (1, 34))]

    assert [(message, hint)] * bool(message) == [(p.message, p.hint) for p in problems]


@pytest.mark.parametrize(
    ("deciding", "names"),
    [
        (["true"], None),
        ([None], "none"),
        (["true", "true"], "Job a-0, Job a-1"),
        (["true", None], None),
    ],
)
def test_exactly_one_job_decides(deciding, names):
    objects = [job(f"a-{i}", **{"mlgen.dev/decides": value}) for i, value in enumerate(deciding)]

    messages = [each.problem.message for each in located(Objects("a", objects), (1, 34))]

    expected = [f"expected exactly one deciding Job, got {names}"]
    assert expected * bool(names) == messages


@pytest.mark.parametrize(("version", "count"), [((1, 34), 1), ((1, 36), 0)])
def test_the_name_of_a_service_may_start_with_a_digit_since_1_36(version, count):
    objects = [job("a"), item("Service", "1a", spec={"selector": {}})]

    problems = [each.problem for each in located(Objects("a", objects), version)]

    assert count == sum(problem.code == "bad-name" for problem in problems)


PAIR = """\
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: a}
spec:
  framework: pytorch
  image: example/m:1
  volumes:
    b-supervisor: {mountPath: /files, files: {x: y}}
    mine: {mountPath: /mine, configMap: USER}
  roles: {worker: {replicas: 2}}
---
apiVersion: mlgen.dev/v1alpha1
kind: TrainingJob
metadata: {name: a-b}
spec: {framework: pytorch, image: "example/m:1", roles: {worker: {replicas: 2}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: USER}
data: {key: value}
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a-config", []),
        ("a-status", []),
        ("a.config", ["ConfigMap a.config would be rendered twice"]),
    ],
)
def test_config_maps_of_jobs_and_users_have_different_names(name, expected):
    given = PAIR.replace("USER", name)
    result = CliRunner().invoke(main, ["render", "-"], input=given, catch_exceptions=False)

    assert result.exit_code == bool(expected)
    assert all(text in result.stderr for text in expected)
    assert ("rename this object" in result.stderr) == bool(expected)
