"""Custom resources of the operators, as they are: what they stand for, and what is said of them."""

import re
import subprocess
import sys

import pytest
import yaml
from click.testing import CliRunner
from support import FIXTURES, RESOURCES, ROOT

from mlgen import dialects
from mlgen.cli import main
from mlgen.output import yaml as emit

KINDS = [(name, *key) for name in dialects.names() for key in dialects.get(name).kinds]


@pytest.fixture
def run(monkeypatch):
    monkeypatch.chdir(ROOT)

    def run(*words, given=None):
        return CliRunner().invoke(main, list(map(str, words)), given, catch_exceptions=False)

    return run


def relative(path):
    return path.relative_to(ROOT)


@pytest.mark.parametrize("path", RESOURCES, ids=lambda path: path.stem)
def test_the_job_file_of_a_custom_resource(path, run, manifest):
    result = run("convert", relative(path))

    said = "".join(f"# {line}\n" for line in result.stderr.splitlines())
    assert result.exit_code == 0
    assert result.stdout + said == manifest


@pytest.mark.parametrize("path", RESOURCES, ids=lambda path: path.stem)
def test_the_job_file_renders_to_the_same_bytes(path, run):
    job = run("convert", relative(path)).stdout

    assert run("render", "-", given=job).stdout == run("render", relative(path)).stdout


@pytest.mark.parametrize(("dialect", "version", "kind"), KINDS)
def test_every_kind_and_version_has_a_fixture(dialect, version, kind):
    own = [path.read_text() for path in RESOURCES if path.stem.startswith(f"{dialect}-")]
    first = [next(yaml.safe_load_all(text)) for text in own]

    assert (version, kind) in {(item["apiVersion"], item["kind"]) for item in first}


@pytest.mark.parametrize("path", RESOURCES, ids=lambda path: path.stem)
def test_a_fixture_is_named_as_its_dialect(path):
    assert [name for name in dialects.names() if path.stem.startswith(f"{name}-")]


@pytest.mark.parametrize(("dialect", "version", "kind"), KINDS)
def test_every_kind_and_version_has_a_row_in_the_readme(dialect, version, kind):
    rows = re.findall(rf"^\| `{dialect}` \|.*", (ROOT / "README.md").read_text(), re.MULTILINE)

    assert [row for row in rows if f"`{version}`" in row and re.search(rf"\b{kind}\b", row)]


@pytest.mark.parametrize("name", dialects.names())
def test_the_differences_of_every_operator_are_in_the_docs(name):
    text = (ROOT / "docs/custom-resources.md").read_text()

    assert f"`{name}`" in text


CONFIG = """\
# the data   that 'both' jobs read
apiVersion: v1
kind: ConfigMap
metadata: {name: data,   namespace: a}
data: {on: "yes", list: '[1,
  2]'}
"""


def test_other_objects_pass_through_byte_for_byte(run, tmp_path):
    job = FIXTURES[0].read_text()
    resource = RESOURCES[0].read_text()
    file = tmp_path / "all.yaml"
    file.write_text(f"{CONFIG}---\n{job}--- # and\n{resource}---\n{CONFIG.replace('data,', 'd,')}")

    rendered = run("render", file).stdout

    assert rendered.startswith(f"---\n{CONFIG}---\n# ")
    assert rendered.endswith(f"\n---\n{CONFIG.replace('data,', 'd,')}")
    between = rendered.removeprefix(f"---\n{CONFIG}").removesuffix(
        f"---\n{CONFIG.replace('data,', 'd,')}"
    )
    alone = [run("render", path).stdout for path in (FIXTURES[0], RESOURCES[0])]
    assert between == "".join(alone)


def test_a_stream_of_all_converts_and_renders_to_the_same_bytes(run, tmp_path):
    file = tmp_path / "all.yaml"
    parts = [CONFIG, FIXTURES[0].read_text(), RESOURCES[0].read_text()]
    file.write_text("---\n".join(parts))

    job = run("convert", file).stdout

    assert job.startswith(f"---\n{CONFIG}---\n{parts[1]}---\n")
    assert run("render", "-", given=job).stdout == run("render", file).stdout


@pytest.mark.parametrize("line_end", ["", "\n"])
def test_another_object_alone_is_no_job(run, line_end):
    result = run("render", "-", given=CONFIG.rstrip() + line_end)

    assert (0, "", f"---\n{CONFIG}") == (result.exit_code, result.stderr, result.stdout)


def test_a_job_of_kubernetes_is_none_of_ours(run):
    job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {}}\n"

    assert run("render", "-", given=job).stdout == f"---\n{job}"


def test_another_object_is_an_item_of_the_list(run):
    import json

    items = json.loads(run("render", "-", "--format", "json", given=CONFIG).stdout)["items"]

    assert items == [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "data", "namespace": "a"},
            "data": {"on": "yes", "list": "[1, 2]"},
        }
    ]


def test_an_object_that_a_job_makes_too_is_refused(run, tmp_path):
    file = tmp_path / "all.yaml"
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: mnist, namespace: vision}\n"
    file.write_text((ROOT / "fixtures/resources/kubeflow-tfjob-v1.yaml").read_text())
    with file.open("a") as text:
        text.write(f"---\n{service}")

    result = run("render", file)

    assert result.exit_code == 1
    assert "Service mnist would be made twice" in result.stderr


def test_what_kubectl_gets_is_taken(run):
    """`kubectl get -o yaml` prints what the API server wrote into a resource besides."""
    path = ROOT / "fixtures/resources/kubeflow-tfjob-v1.yaml"
    item = yaml.safe_load(path.read_text())
    item["metadata"] |= {
        "uid": "a",
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
        "managedFields": [],
    }
    item["status"] = {"conditions": []}
    item["spec"]["tfReplicaSpecs"]["Chief"]["template"]["metadata"] = {"creationTimestamp": None}

    got = run("render", "-", given=emit.yaml_text([item]))

    assert got.stdout == run("render", relative(path)).stdout, got.stderr


def test_a_list_of_jobs_is_each_of_them(run):
    """As `kubectl get tfjobs -o yaml` prints them."""
    items = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "data"}}]
    items += [yaml.safe_load(path.read_text()) for path in (FIXTURES[0], RESOURCES[0])]
    given = emit.yaml_text([{"apiVersion": "v1", "kind": "List", "items": items}])

    rendered = run("render", "-", given=given)

    alone = [run("render", path).stdout for path in (FIXTURES[0], RESOURCES[0])]
    assert rendered.stdout == "".join([emit.yaml_text(items[:1]), *alone]), rendered.stderr
    assert run("render", "-", given=run("convert", "-", given=given).stdout).stdout == (
        rendered.stdout
    )


def test_a_problem_of_an_item_has_its_line(run):
    item = "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: a}\nspec: {}\n"
    text = "".join(f"  {line}\n" for line in item.splitlines())

    said = run("render", "-", given=f"apiVersion: v1\nkind: List\nitems:\n-{text[1:]}").stderr

    assert said.startswith('<stdin>:7:9: spec: the field "tfReplicaSpecs" is missing')


def test_settings_are_of_the_job_file_that_a_resource_stands_for(run):
    path = "fixtures/resources/kubeflow-tfjob-v1.yaml"

    rendered = run("render", path, "--set", "spec.roles.worker.replicas=7").stdout

    assert re.search("worker +7 in Job", rendered)


def test_a_problem_after_conversion_is_told_of_the_resource(run):
    """By the path that its writer knows, also where the job file has another one."""
    text = (ROOT / "fixtures/resources/kubeflow-tfjob-v1.yaml").read_text()
    given = text.replace('value: "1e-5"', "value: 1e-5").replace("gpu: 1}", "gpu: one}")

    said = run("render", "-", given=given).stderr.splitlines()
    line = given.splitlines().index("                limits: {nvidia.com/gpu: one}") + 1

    worker = "spec.tfReplicaSpecs.Worker.template.spec.containers[0]"
    assert len(said) == 1
    assert said[0].startswith(f"<stdin>:{line - 4}:37: {worker}.env[0].value: ")

    said = run("render", "-", given=given.replace("value: 1e-5", 'value: "1e-5"')).stderr
    assert f"<stdin>:{line}:42: {worker}.resources.limits.nvidia.com/gpu: " in said


def test_a_plain_job_file_does_not_import_a_dialect():
    program = (
        "import sys; from mlgen.cli import main; main(['render', sys.argv[1]], standalone_mode=0);"
        " print([name for name in sys.modules if name.startswith('mlgen.dialects.')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, FIXTURES[0]], capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines()[-1] == "[]"
