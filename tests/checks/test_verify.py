"""`mlgen verify`: of a finished stream, every change that breaks a job is found, and no other."""

import json
import random
import re

import pytest
import yaml
from click.testing import CliRunner
from support import ROOT, spoilt

from mlgen import Options, pipeline
from mlgen.checks.verify import verify_documents
from mlgen.cli import main
from mlgen.documents.document import Document
from mlgen.documents.files import texts
from mlgen.output.yaml import yaml_text
from mlgen.problems import Collector, Place

KUBE_VERSION = (1, 34)
JOB = "mlgen.dev/job"


def run(*arguments, stdin=None):
    result = CliRunner().invoke(
        main, ["verify", *map(str, arguments)], input=stdin, catch_exceptions=False
    )
    return result.exit_code, result.stdout, result.stderr


def fixture(name):
    return ROOT / "fixtures" / f"{name}.yaml"


def told(objects):
    """What is wrong with the objects of a stream: as the command, but without reading YAML."""
    documents = [Document(item, {(): Place("stream", i)}) for i, item in enumerate(objects)]
    collector = Collector()
    verify_documents(documents, KUBE_VERSION, collector)
    return list(collector.problems)


RENDERED = {}
"""The objects of each fixture, as one JSON text."""


@pytest.fixture
def objects(any_file):
    if any_file not in RENDERED:
        parts = pipeline.render(texts((str(any_file),)), Options()).parts
        found = [part.objects for part in parts]
        RENDERED[any_file] = json.dumps([item for same in found for item in same])
    return json.loads(RENDERED[any_file])


EDITS = {
    "addresses-have-another-index": ("tensorflow-ps", "mnist-ps-1.", "mnist-ps-7."),
    "addresses-have-another-service": ("tensorflow-ps", "mnist-ps-1.mnist:", "mnist-ps-1.other:"),
    "address-of-another-namespace": ("generic-actors", "namespace: games", "namespace: prod"),
    "config-map-is-renamed": ("tensorflow-ps", "name: mnist-config\n  labels", "name: c\n  labels"),
    "config-map-is-taken-from-another": (
        "generic-files",
        "configMap:\n          name: beam-settings",
        "configMap:\n          name: settings",
    ),
    "config-map-lacks-a-key": ("tensorflow-ps", "  wait-for-peers.sh: |", "  wait.sh: |"),
    "deciding-job-is-unmarked": (
        "tensorflow-ps",
        "mnist\n    mlgen.dev/role: chief\n    mlgen.dev/decides: 'true'\nspec",
        "mnist\n    mlgen.dev/role: chief\nspec",
    ),
    "gang-waits-for-more-pods": ("tensorflow-volcano", "minMember: 7", "minMember: 8"),
    "gang-is-renamed": (
        "tensorflow-volcano",
        "kind: PodGroup\nmetadata:\n  name: wide-deep",
        "kind: PodGroup\nmetadata:\n  name: dev-wide-deep",
    ),
    "hostfile-names-another": ("mpi-kubectl-exec", "pi-worker-1 slots", "pi-worker-2 slots"),
    "image-is-gone": ("mpi-kubectl-exec", "        image: alpine/kubectl:1.34.2\n", ""),
    "job-label-of-one-object": (
        "mpi-kubectl-exec",
        "managed-by: mlgen\n    mlgen.dev/job: pi\ndata",
        "managed-by: mlgen\n    mlgen.dev/job: tau\ndata",
    ),
    "name-is-too-long": ("mpi-ssh", "name: cfd-worker\n", f"name: {'x' * 62}\n"),
    "namespace-of-one-object": (
        "mpi-kubectl-exec",
        "  name: pi-config\n  labels",
        "  name: pi-config\n  namespace: prod\n  labels",
    ),
    "number-in-the-place-of-a-text": ("tensorflow-ps", "value: '600'", "value: 600"),
    "object-stands-twice": (
        "mpi-kubectl-exec",
        "---\napiVersion: apps/v1",
        "---\napiVersion: v1\nkind: Service\nmetadata: {name: pi}\n---\napiVersion: apps/v1",
    ),
    "port-is-another": ("tensorflow-ps", "containerPort: 2222", "containerPort: 2223"),
    "replicas-are-fewer": ("tensorflow-ps", "replicas: 2", "replicas: 1"),
    "replicas-do-not-run-together": ("tensorflow-ps", "parallelism: 4", "parallelism: 3"),
    "role-names-another-pod": ("mpi-kubectl-exec", "  - pi-worker-0\n", "  - pi-worker-7\n"),
    "role-names-no-pod": ("mpi-kubectl-exec", "  - pi-worker-0\n", "  - worker-0\n"),
    "role-binding-is-for-another": (
        "mpi-kubectl-exec",
        "- kind: ServiceAccount\n  name: pi-launcher",
        "- kind: ServiceAccount\n  name: default",
    ),
    "role-binding-is-for-no-role": (
        "mpi-kubectl-exec",
        "  kind: Role\n  name: pi-launcher",
        "  kind: Role\n  name: launcher",
    ),
    "service-account-is-renamed": (
        "mpi-kubectl-exec",
        "kind: ServiceAccount\nmetadata:\n  name: pi-launcher",
        "kind: ServiceAccount\nmetadata:\n  name: launcher",
    ),
    "service-has-an-address": ("tensorflow-ps", "  clusterIP: None\n", ""),
    "service-hides-pods": ("tensorflow-ps", "  publishNotReadyAddresses: true\n", ""),
    "service-is-renamed": (
        "pytorch-static",
        "kind: Service\nmetadata:\n  name: bert",
        "kind: Service\nmetadata:\n  name: dev-bert",
    ),
    "service-of-one-replica-is-renamed": (
        "pytorch-host-network",
        "kind: Service\nmetadata:\n  name: gan-rank-0",
        "kind: Service\nmetadata:\n  name: gan-zero",
    ),
    "service-selects-a-label-that-pods-lack": (
        "tensorflow-ps",
        "  selector:\n    mlgen.dev/job: mnist",
        "  selector:\n    env: prod\n    mlgen.dev/job: mnist",
    ),
    "set-does-not-select-its-pods": (
        "tensorflow-ps",
        "    matchLabels:\n",
        "    matchLabels:\n      env: prod\n",
    ),
    "spec-is-gone": ("generic-limits", "  template:", "  tmplate:"),
    "status-is-renamed": ("tensorflow-ps", "  name: mnist-status", "  name: dev-mnist-status"),
    "subdomain-is-gone": ("tensorflow-ps", "      subdomain: mnist\n", ""),
    "supervisor-watches-another": (
        "tensorflow-ps",
        "statefulset/mnist-ps job/mnist-worker",
        "statefulset/mnist-server",
    ),
    "supervisor-waits-for-another": (
        "tensorflow-ps",
        "name: MLGEN_DECIDES\n          value: mnist-chief",
        "name: MLGEN_DECIDES\n          value: mnist-worker",
    ),
    "value-stands-twice": ("generic-limits", "  completions: 10\n", "  completions: 10\n" * 2),
    "volume-is-gone": ("mpi-kubectl-exec", "      - name: mpi-kubectl\n        emptyDir: {}\n", ""),
    "workload-is-renamed": (
        "tensorflow-ps",
        "kind: StatefulSet\nmetadata:\n  name: mnist-ps",
        "kind: StatefulSet\nmetadata:\n  name: dev-mnist-ps",
    ),
}
"""One edit each of a fixture's manifests, as an overlay, sed or a hand would make it."""


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_found(name, render, message):
    source, old, new = EDITS[name]
    before = render(fixture(source))
    assert old in before, "the edit changes nothing"

    status, out, err = run("-", stdin=before.replace(old, new))

    assert (1, "") == (status, out)
    assert err == message


def test_what_was_not_changed_is_verified(render):
    stream = "".join(render(fixture(name)) for name in ("tensorflow-ps", "pytorch-host-network"))

    status, out, err = run("-", stdin=stream)

    assert (0, "") == (status, err)
    assert out == ("mnist: verified, 10 objects, 7 pods\nvision/gan: verified, 8 objects, 3 pods\n")


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_order_form_and_other_objects_do_not_matter(form, render, tmp_path):
    items = list(yaml.safe_load_all(render(fixture("tensorflow-ps"))))[::-1]
    items.insert(3, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mnist"}})
    whole = {"apiVersion": "v1", "kind": "List", "items": items}
    text = yaml_text(items) if form == "yaml" else json.dumps(whole)
    (tmp_path / f"all.{form}").write_text(text)

    assert (0, "mnist: verified, 10 objects, 7 pods\n", "") == run(tmp_path)


def test_the_objects_of_a_job_may_be_in_many_files(render, tmp_path):
    for number, item in enumerate(yaml.safe_load_all(render(fixture("mpi-ssh")))):
        (tmp_path / f"{number}.yaml").write_text(yaml_text([item]))

    assert (0, "cfd: verified, 4 objects, 3 pods\n", "") == run(tmp_path)


def test_a_problem_names_file_and_line_of_the_value(render, tmp_path, monkeypatch):
    lines = render(fixture("mpi-kubectl-exec")).splitlines()
    monkeypatch.chdir(tmp_path)
    at = lines.index("  name: pi-config")
    lines[at] = "  name: dev-pi-config"
    (tmp_path / "all.yaml").write_text("\n".join(lines))

    _, _, err = run("all.yaml")

    places = [line.split(": ")[0] for line in err.splitlines()]
    assert places == sorted(places, key=lambda place: int(place.split(":")[1]))
    for place in places:
        _, line, column = place.split(":")
        assert "name: pi-config" in "\n".join(lines[int(line) - 1 : int(line) + 1])
        assert int(column) > 1


def test_a_stream_without_a_job_is_a_problem(render, message):
    """The label may have been stripped, or it is the wrong file."""
    stripped = render(fixture("mpi-ssh")).replace("mlgen.dev/", "example.com/")

    status, out, err = run("-", stdin=stripped)

    assert (1, "") == (status, out)
    assert err == message


@pytest.mark.parametrize("name", ["tensorflow-ps", "resources/kubeflow-tfjob-v1"])
def test_what_is_not_rendered_yet_is_a_problem(name, render, message):
    stream = render(fixture("mpi-ssh")) + "---\n" + fixture(name).read_text()

    status, out, err = run("-", stdin=stream)

    assert (1, "") == (status, out)
    assert err == message


@pytest.mark.parametrize(
    "text", ["", "Error: no such file\n", "[1, 2]\n", "a: [\n", "---\n# nothing\n"], ids=repr
)
def test_what_is_no_manifest_is_a_problem(text):
    status, out, err = run("-", stdin=text)

    assert (1, "", 1) == (status, out, len(err.splitlines()))


def test_a_wrong_command_line():
    assert [2, 2, 1] == [run(*args)[0] for args in ([], ["--kube-version", "1.2", "-"], ["none"])]


def test_a_service_may_begin_with_a_digit_from_1_36_on(render):
    stream = render(ROOT / "fixtures/invalid/name-begins-with-a-digit.yaml", kube_version=(1, 36))

    assert 1 == run("-", stdin=stream)[0]
    assert 0 == run("--kube-version", "1.36", "-", stdin=stream)[0]


def test_one_job_in_two_namespaces_is_two_jobs(render):
    stream = "".join(render(fixture("mpi-ssh"), namespace=name) for name in "ab")

    status, out, err = run("-", stdin=stream)

    assert (0, "") == (status, err)
    assert ["a/cfd", "b/cfd"] == [line.partition(":")[0] for line in out.splitlines()]


def test_what_mlgen_renders_is_verified(objects, any_file):
    options = Options(namespace="team-a", target="argocd")
    result = pipeline.render(texts((str(any_file),)), options)

    assert [] == told(objects)
    assert [] == told([item for job in result.jobs for item in job.objects])


def strings(value, path=()):
    """Every text in an object that is no label and no selector, by its path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in ("labels", "matchLabels", "selector"):
                yield from strings(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from strings(inner, (*path, number))
    elif isinstance(value, str):
        yield path, value


def with_text(objects, number, path, text):
    """The problems of a stream in which one text is another; the objects stay as they are."""
    inner = objects[number]
    for step in path[:-1]:
        inner = inner[step]
    before, inner[path[-1]] = inner[path[-1]], text
    try:
        return told(objects)
    finally:
        inner[path[-1]] = before


def ours(objects):
    return [(i, o) for i, o in enumerate(objects) if JOB in str(o["metadata"].get("labels"))]


def named_elsewhere(objects, number):
    """Whether another object, or another field of it, has the name of an object, or of its pods."""
    item = objects[number]
    word = re.compile(rf"(?<![\w.-]){re.escape(item['metadata']['name'])}(?![\w-]|-[a-z])")
    pods = re.compile(rf"(?<![\w.-]){re.escape(item['metadata']['name'])}-(\d|\[|\$)")
    own = item["spec"]["template"]["spec"].get("hostname") if item["kind"] == "Job" else None
    for other in objects:
        for path, text in strings(other):
            if path[:1] == ("metadata",) or path[-1] in ("image", "mountPath", "hostname"):
                continue
            if f"job/{item['metadata']['name']}" in text.split():
                return True
            # A replica with a Job of its own has a host name of its own, whatever that is called.
            if not own and (pods.search(text) or (item["kind"] != "Job" and word.search(text))):
                return True
    return False


def test_another_name_is_found_where_the_first_one_is_used(objects):
    """Of a Job that nobody names, of a RoleBinding and of a TensorBoard any name will do."""
    free = {"RoleBinding", "Deployment"}
    for number, item in ours(objects):
        if item["kind"] in free or "tensorboard" in item["metadata"]["name"]:
            continue
        renamed = f"dev-{item['metadata']['name']}"
        problems = with_text(objects, number, ("metadata", "name"), renamed)

        assert problems or not named_elsewhere(objects, number), (item["kind"], renamed)
        assert problems or item["kind"] == "Job"


def test_another_job_label_on_one_object_is_found(objects):
    for number, item in ours(objects):
        if JOB in item["metadata"]["labels"]:
            assert with_text(objects, number, ("metadata", "labels", JOB), "other")


def test_a_change_of_any_name_in_a_role_or_binding_is_found(objects):
    for number, item in ours(objects):
        if item["kind"] in ("Role", "RoleBinding"):
            for path, text in strings(item):
                if "resourceNames" in path or path in (
                    ("roleRef", "name"),
                    ("subjects", 0, "name"),
                ):
                    assert with_text(objects, number, path, f"{text}x"), (path, text)


def test_a_change_of_any_service_account_or_config_map_of_a_pod_is_found(objects):
    names = {o["metadata"]["name"] for o in objects if o["kind"] in ("ServiceAccount", "ConfigMap")}
    for number, item in ours(objects):
        for path, text in strings(item):
            pod = path[:3] == ("spec", "template", "spec")
            if pod and text in names and path[-2:] in (("configMap", "name"), path[3:4]):
                found = with_text(objects, number, path, f"{text}x")
                shared = sum(
                    text == t for o in objects for p, t in strings(o) if p[-2:] == path[-2:]
                )

                assert found or shared > 1, (path, text)


def addresses(job, text):
    """Where a text names replicas of a job by index: each span of an index, or a range's end."""
    index = r"(?:(\d+)|\[\d+-(\d+)\])"
    after = rf"(?=\.{re.escape(job)}(?![\w-])|[:,\s\"]|$)"
    pattern = rf"(?<![\w./-]){re.escape(job)}-[a-z0-9-]*-{index}{after}"
    for found in re.finditer(pattern, text):
        yield found.span(1 if found[1] else 2)


def test_another_index_of_any_peer_is_found(objects):
    if any(item["kind"] == "StatefulSet" and not item["spec"]["replicas"] for item in objects):
        return  # of a suspended job nobody knows how many there will be
    for number, item in ours(objects):
        job = item["metadata"]["labels"].get(JOB)
        for path, text in strings(item):
            if path[0] == "metadata" or path[-1] in ("hostname", "name") or not job:
                continue
            spans = list(addresses(job, text))
            for start, end in {*spans[:1], *spans[-1:]}:
                other = f"{text[:start]}4242{text[end:]}"

                assert with_text(objects, number, path, other), (path, other)


def prefixed(objects, prefix):
    """What `namePrefix` of kustomize does: names, and the references that it knows of.

    api/internal/konfig/builtinpluginconsts/namereference.go
    """
    names = {(item["kind"], item["metadata"]["name"]) for item in objects}
    for item in objects:
        item["metadata"]["name"] = prefix + item["metadata"]["name"]
        for path, text in strings(item):
            kind = None
            if path[-2:] == ("configMap", "name") or "configMapRef" in path:
                kind = "ConfigMap"
            elif path[-1] == "serviceAccountName" or path[:1] == ("subjects",):
                kind = "ServiceAccount"
            elif path == ("spec", "serviceName"):
                kind = "Service"
            elif path == ("roleRef", "name"):
                kind = "Role"
            if kind and (kind, text) in names:
                inner = item
                for step in path[:-1]:
                    inner = inner[step]
                inner[path[-1]] = prefix + text
    return objects


def test_a_name_prefix_is_found(objects):
    """In every job, as the pods of each have names under a Service."""
    assert told(prefixed(objects, "dev-"))


def test_whatever_is_broken_ends_in_problems_and_not_in_a_traceback(objects, any_file):
    chance = random.Random(any_file.stem)
    for _ in range(12):
        broken = json.loads(json.dumps(objects))
        for _ in range(chance.randint(1, 3)):
            broken = spoilt(broken, chance)
        for problem in told(broken):
            assert problem.message
            assert "\n" not in str(problem)
