"""`mlgen verify` reports the edits of rendered manifests that break a job, and no other edits."""

import json

import pytest
from click.testing import CliRunner
from support import ROOT, load_all, rendered_once, without_totals

from mlgen.cli import main
from mlgen.output.yaml import yaml_text


def run(*arguments, stdin=None):
    result = CliRunner().invoke(
        main, ["verify", *map(str, arguments)], input=stdin, catch_exceptions=False
    )
    return result.exit_code, result.stdout, without_totals(result.stderr)


def fixture(name):
    return ROOT / "fixtures" / f"{name}.yaml"


OURS = ", the program of mlgen 0.2.0\n"
EDITS = {
    "addresses-have-another-index": ("tensorflow-ps", "mnist-ps-1.", "mnist-ps-7."),
    "addresses-have-another-service": ("tensorflow-ps", "mnist-ps-1.mnist:", "mnist-ps-1.other:"),
    "address-of-another-namespace": ("generic-actors", "namespace: games", "namespace: prod"),
    "config-map-is-renamed": ("mpi-ssh", "name: cfd.config\n  labels", "name: c\n  labels"),
    "config-map-is-taken-from-another": (
        "generic-files",
        "configMap: {name: beam.files.settings}",
        "configMap: {name: settings}",
    ),
    "config-map-lacks-a-key": ("mpi-kubectl-exec", "  hostfile: |", "  hosts: |"),
    "config-map-lacks-a-script": ("mpi-ssh", "  wait-for-peers.sh: |", "  wait.sh: |"),
    "deciding-job-is-unmarked": (
        "tensorflow-ps",
        "mnist\n    mlgen.dev/role: chief\n    mlgen.dev/decides: 'true'\n  ann",
        "mnist\n    mlgen.dev/role: chief\n  ann",
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
        "  name: pi.config\n  labels",
        "  name: pi.config\n  namespace: prod\n  labels",
    ),
    "number-in-the-place-of-a-text": ("mpi-ssh", "value: '10'", "value: 10"),
    "object-stands-twice": (
        "mpi-kubectl-exec",
        "---\napiVersion: apps/v1",
        "---\napiVersion: v1\nkind: Service\nmetadata: {name: pi}\n---\napiVersion: apps/v1",
    ),
    "port-is-another": ("tensorflow-host-network", "port: 2222,", "port: 2223,"),
    "replicas-are-fewer": ("tensorflow-ps", "replicas: 2", "replicas: 1"),
    "replicas-do-not-run-together": ("tensorflow-ps", "parallelism: 4", "parallelism: 3"),
    "role-names-another-pod": ("mpi-kubectl-exec", "[pi-worker-0,", "[pi-worker-7,"),
    "role-names-no-pod": ("mpi-kubectl-exec", "[pi-worker-0,", "[worker-0,"),
    "role-binding-is-for-another": (
        "mpi-kubectl-exec",
        "{kind: ServiceAccount, name: pi-launcher}",
        "{kind: ServiceAccount, name: default}",
    ),
    "role-binding-is-for-no-role": (
        "mpi-kubectl-exec",
        "kind: Role, name: pi-launcher",
        "kind: Role, name: launcher",
    ),
    "service-account-is-renamed": (
        "mpi-kubectl-exec",
        "kind: ServiceAccount\nmetadata:\n  name: pi-launcher",
        "kind: ServiceAccount\nmetadata:\n  name: launcher",
    ),
    "selector-is-gone": ("tensorflow-ps", ", selector: {mlgen.dev/job: mnist}}\n", "}\n"),
    "service-has-an-address": ("tensorflow-ps", "{clusterIP: None, ", "{"),
    "service-hides-pods": ("tensorflow-ps", " publishNotReadyAddresses: true,", ""),
    "service-publishes-workers-that-start": (
        "horovod-elastic",
        "{clusterIP: None, ",
        "{clusterIP: None, publishNotReadyAddresses: true, ",
    ),
    "service-is-renamed": (
        "pytorch-static",
        "kind: Service\nmetadata:\n  name: bert",
        "kind: Service\nmetadata:\n  name: dev-bert",
    ),
    "service-of-rank-0-is-renamed": (
        "xgboost",
        "kind: Service\nmetadata:\n  name: higgs-rank-0",
        "kind: Service\nmetadata:\n  name: higgs-rank-zero",
    ),
    "service-of-one-replica-is-renamed": (
        "pytorch-host-network",
        "kind: Service\nmetadata:\n  name: gan-rank-0",
        "kind: Service\nmetadata:\n  name: gan-zero",
    ),
    "service-selects-a-label-that-pods-lack": (
        "tensorflow-ps",
        "selector: {mlgen.dev/job: mnist}",
        "selector: {env: prod, mlgen.dev/job: mnist}",
    ),
    "set-does-not-select-its-pods": (
        "tensorflow-ps",
        "matchLabels: {",
        "matchLabels: {env: prod, ",
    ),
    "files-are-renamed": (
        "generic-files",
        "kind: ConfigMap\nmetadata:\n  name: ",
        "kind: ConfigMap\nmetadata:\n  name: dev-",
    ),
    "spec-is-gone": ("generic-limits", "  template:", "  tmplate:"),
    "status-is-renamed": ("tensorflow-ps", "  name: mnist.status", "  name: dev-mnist.status"),
    "subdomain-is-gone": ("tensorflow-ps", "      subdomain: mnist\n", ""),
    "plan-is-no-json": ("tensorflow-ps", '"job": "mnist"', '"job"'),
    "plan-is-no-plan": ("tensorflow-ps", '"workloads": [', '"work": ['),
    "plan-names-another-deciding-job": (
        "tensorflow-ps",
        '"deciding": ["mnist-chief"]',
        '"deciding": ["mnist-boss"]',
    ),
    "plan-names-another-set": ("tensorflow-ps", '"name": "mnist-ps"', '"name": "mnist-server"'),
    "plan-has-more-replicas": (
        "tensorflow-ps",
        '"role": "ps", "replicas": 2',
        '"role": "ps", "replicas": 3',
    ),
    "plan-is-of-another-version": (
        "tensorflow-ps",
        '"deciding": ["mnist-chief"]',
        '"set": "tk8w289t", "deciding": ["mnist-chief"]',
    ),
    "value-stands-twice": ("generic-limits", "  completions: 10\n", "  completions: 10\n" * 2),
    "volume-is-gone": ("mpi-kubectl-exec", "      - {name: mpi-job-kubectl, emptyDir: {}}\n", ""),
    "workload-is-renamed": (
        "tensorflow-ps",
        "kind: StatefulSet\nmetadata:\n  name: mnist-ps",
        "kind: StatefulSet\nmetadata:\n  name: dev-mnist-ps",
    ),
}
"""Edits of a fixture's manifests, like those by an overlay, by sed or by hand."""


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_found(name, message):
    source, old, new = EDITS[name]
    before = rendered_once(fixture(source))
    assert old in before, "the edit changes nothing"

    status, out, _ = run("-", stdin=before.replace(old, new))

    assert status == 1
    assert out == message


def test_unchanged_manifests_are_verified(render):
    stream = "".join(render(fixture(name)) for name in ("tensorflow-ps", "pytorch-host-network"))

    status, out, err = run("-", stdin=stream)

    assert (0, "") == (status, err)
    assert out == (
        f"mnist: verified, 11 objects, 7 pods{OURS}vision/gan: verified, 14 objects, 3 pods{OURS}"
    )


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_the_order_of_objects_lists_and_other_objects_do_not_matter(form, render, tmp_path):
    items = load_all(render(fixture("tensorflow-ps")))[::-1]
    items.insert(3, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mnist"}})
    whole = {"apiVersion": "v1", "kind": "List", "items": items}
    text = yaml_text(items) if form == "yaml" else json.dumps(whole)
    (tmp_path / f"all.{form}").write_text(text)

    assert (0, f"mnist: verified, 11 objects, 7 pods{OURS}", "") == run(tmp_path)


def test_the_objects_of_a_job_may_be_in_many_files(render, tmp_path):
    for number, item in enumerate(load_all(render(fixture("mpi-ssh")))):
        (tmp_path / f"{number}.yaml").write_text(yaml_text([item]))

    assert (0, f"cfd: verified, 10 objects, 3 pods{OURS}", "") == run(tmp_path)


def test_a_problem_names_file_and_line_of_the_value(render, tmp_path, monkeypatch):
    lines = render(fixture("mpi-kubectl-exec")).splitlines()
    monkeypatch.chdir(tmp_path)
    at = lines.index("  name: pi.config")
    lines[at] = "  name: dev-pi.config"
    (tmp_path / "all.yaml").write_text("\n".join(lines))

    _, out, _ = run("all.yaml")

    places = [line.split(": ")[0] for line in out.splitlines()]
    assert places == sorted(places, key=lambda place: int(place.split(":")[1]))
    for place in places:
        _, line, column = place.split(":")
        assert "name: pi.config" in "\n".join(lines[int(line) - 1 : int(line) + 1])
        assert int(column) > 1


def test_a_stream_without_a_job_is_a_problem(render, message):
    """A tool may have removed the label, or it is the wrong file."""
    stripped = render(fixture("mpi-ssh")).replace("mlgen.dev/", "example.com/")

    status, out, _ = run("-", stdin=stripped)

    assert status == 1
    assert out == message


@pytest.mark.parametrize("name", ["tensorflow-ps", "resources/kubeflow-tfjob-v1"])
def test_what_is_not_rendered_yet_is_a_problem(name, render, message):
    stream = render(fixture("mpi-ssh")) + "---\n" + fixture(name).read_text()

    status, out, _ = run("-", stdin=stream)

    assert status == 1
    assert out == message


@pytest.mark.parametrize(
    "text", ["", "Error: no such file\n", "[1, 2]\n", "a: [\n", "---\n# nothing\n"], ids=repr
)
def test_what_is_no_manifest_is_a_problem(text):
    status, out, _ = run("-", stdin=text)

    assert (1, 1) == (status, len(out.splitlines()))


def test_a_wrong_command_line_is_rejected():
    assert [2, 2, 1] == [run(*args)[0] for args in ([], ["--kube-version", "1.2", "-"], ["none"])]


def test_the_name_of_a_service_may_start_with_a_digit_since_1_36(render):
    stream = render(ROOT / "fixtures/invalid/name-begins-with-a-digit.yaml", kube_version=(1, 36))

    assert 1 == run("-", stdin=stream)[0]
    assert 0 == run("--kube-version", "1.36", "-", stdin=stream)[0]


def test_a_job_in_two_namespaces_is_verified_as_two_jobs(render):
    stream = "".join(render(fixture("mpi-ssh"), namespace=name) for name in "ab")

    status, out, err = run("-", stdin=stream)

    assert (0, "") == (status, err)
    assert ["a/cfd", "b/cfd"] == [line.partition(":")[0] for line in out.splitlines()]
